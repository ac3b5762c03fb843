package main

import (
	delegclient "github.com/nfsrdma/nfsrdma/delegation/client"
	"github.com/nfsrdma/nfsrdma/fusefs"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// hold returns what a mount is to hold of its server's objects; nil: nothing. A mount
// that keeps nothing back has no use for it.
func (m *mountCommand) hold() *delegclient.Set {
	if o := m.opts; m.bare || o.noDeleg || o.noAC || o.sync {
		return nil
	}
	return delegclient.New(delegclient.Config{Drop: fusefs.Drop, Log: m.log})
}

// nextLine is the configuration of one more line of a mount.
func (m *mountCommand) nextLine(held *delegclient.Set) rpcrdma.ClientConfig {
	cfg := rpcrdma.ClientConfig{Conn: m.client(), Silence: m.opts.silence(), GiveUp: m.opts.giveUp(), Log: m.log}
	if held != nil {
		cfg.Conn.Extensions = held.NewAttachment().Extension()
	}
	return cfg
}

// asMount is brief with all that a mount offers to its server. Nothing is ever held.
func (a *app) asMount() rpcrdma.ClientConfig {
	cfg := a.brief()
	if !a.bare {
		cfg.Conn.Extensions = delegclient.New(delegclient.Config{}).NewAttachment().Extension()
	}
	return cfg
}
