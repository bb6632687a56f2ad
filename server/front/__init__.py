"""The front of a public port: connections are counted and watched before what serves sees a byte of them."""
