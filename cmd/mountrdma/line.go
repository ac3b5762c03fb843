package main

import (
	"log/slog"

	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// client is how this program behaves on an RDMA connection.
func (a *app) client() rpcrdma.ClientConnConfig {
	cfg := rpcrdma.ClientConnConfig{Inline: int(a.inline), Credits: a.credits}
	if !a.bare {
		cfg.Extensions = &rpcrdma.ExtensionConfig{Atomics: true}
	}
	return cfg
}

// brief is the line of a command that ends: it lives through a restart of the
// server that is shorter than --timeout. What became of it is in the errors.
func (a *app) brief() rpcrdma.ClientConfig {
	return rpcrdma.ClientConfig{
		Conn: a.client(), Silence: a.timeout, GiveUp: a.timeout, Log: slog.New(slog.DiscardHandler),
	}
}
