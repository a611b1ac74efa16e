/** Pictures for a prompt: read from the clipboard, a drop or a file, made smaller where they are larger than models look at. */
import type * as acp from "@agentclientprotocol/sdk";

const LONGEST_SIDE = 2000;
const LARGEST = 1_500_000;
const KINDS = ["image/png", "image/jpeg", "image/gif", "image/webp"];

export function picturesIn(transfer: DataTransfer | null): File[] {
  return [...(transfer?.files ?? [])].filter((file) => file.type.startsWith("image/"));
}

export async function picture(file: File): Promise<acp.ContentBlock> {
  const blob = KINDS.includes(file.type) && file.size <= LARGEST ? file : await smaller(file);
  return { type: "image", mimeType: blob.type, data: await base64(blob) };
}

async function smaller(file: File): Promise<Blob> {
  const bitmap = await createImageBitmap(file);
  const scale = Math.min(1, LONGEST_SIDE / Math.max(bitmap.width, bitmap.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(bitmap.width * scale);
  canvas.height = Math.round(bitmap.height * scale);
  canvas.getContext("2d")?.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  bitmap.close();
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the picture could not be read"))), "image/jpeg", 0.85);
  });
}

function base64(blob: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).replace(/^[^,]*,/, ""));
    reader.onerror = () => reject(reader.error ?? new Error("the picture could not be read"));
    reader.readAsDataURL(blob);
  });
}
