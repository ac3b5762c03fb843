// Package rpcstats counts calls by procedure: an Observer those that a server
// answers, a Counter those that a client makes. It must not know programs or
// transports.
package rpcstats
