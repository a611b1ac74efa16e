"""What the user sets about `accord chat`: one table, read by the file, by its screen and by the guide."""
