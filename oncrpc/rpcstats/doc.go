// Package rpcstats counts calls by procedure: an Observer on a server, a Counter on a
// client. An Observer also counts them by client, and by what they work on, such as an
// export (Usage). The package must not know programs or transports.
package rpcstats
