package main

import (
	"github.com/nfsrdma/nfsrdma/fusefs"
	"github.com/nfsrdma/nfsrdma/holdings"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// hold returns what a mount is to hold of its server's objects; nil: nothing. A mount
// that keeps nothing back has no use for it.
func (m *mountCommand) hold() *holdings.Set {
	if o := m.opts; m.bare || o.noDeleg || o.noAC || o.sync {
		return nil
	}
	return holdings.New(holdings.Config{Drop: fusefs.Drop, Log: m.log})
}

// nextLine is the configuration of one more line of a mount.
func (m *mountCommand) nextLine(held *holdings.Set) rpcrdma.LineConfig {
	cfg := rpcrdma.LineConfig{Client: m.client(), Silence: m.opts.silence(), GiveUp: m.opts.giveUp(), Log: m.log}
	if held != nil {
		cfg.Client.Extensions = held.Line().Extension()
	}
	return cfg
}

// asMount is brief with all that a mount offers to its server. Nothing is ever held.
func (a *app) asMount() rpcrdma.LineConfig {
	cfg := a.brief()
	if !a.bare {
		cfg.Client.Extensions = holdings.New(holdings.Config{}).Line().Extension()
	}
	return cfg
}
