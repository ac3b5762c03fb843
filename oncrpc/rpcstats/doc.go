// Package rpcstats counts calls by procedure: an Observer on a server, a
// Counter on a client. The package must not know programs or transports.
package rpcstats
