/** The gateway, for every part of the page that talks to it. */
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Gateway } from "../state/gateway.ts";

export const GatewayContext = createContext<Gateway | null>(null);

export function useGateway(): Gateway {
  const gateway = useContext(GatewayContext);
  if (!gateway) throw new Error("no gateway around this part of the page");
  return gateway;
}
