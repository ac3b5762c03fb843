package main

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfsacl"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcstats"
)

// A program is an RPC program whose calls are counted by procedure, with its
// names.
type program struct {
	rpcstats.Observed
	name   string
	proc   func(uint32) string
	status func(uint32) string
}

func nfsStatus(code uint32) string { return nfs3.Status(code).String() }
func acquireStatus(code uint32) string {
	if delegation.Status(code) == delegation.StatusRefused {
		return "REFUSED"
	}
	return nfsStatus(code)
}

func mountStatus(code uint32) string { return mount3.Status(code).String() }

var programs = []program{
	{
		rpcstats.Observed{
			Prog: nfs3.Program, Vers: nfs3.Version, Procs: nfs3.NumProc,
			HasStatus: func(proc uint32) bool { return proc != nfs3.ProcNull },
		},
		"nfs", nfs3.ProcName, nfsStatus,
	},
	{
		rpcstats.Observed{
			Prog: mount3.Program, Vers: mount3.Version, Procs: mount3.NumProc,
			HasStatus: func(proc uint32) bool { return proc == mount3.ProcMnt },
		},
		"mount", mount3.ProcName, mountStatus,
	},
	{
		rpcstats.Observed{
			Prog: nfsacl.Program, Vers: nfsacl.Version, Procs: nfsacl.NumProc,
			HasStatus: func(proc uint32) bool { return proc != nfsacl.ProcNull },
		},
		"nfsacl", nfsacl.ProcName, nfsStatus,
	},
	{
		rpcstats.Observed{
			Prog: delegation.Program, Vers: delegation.Version, Procs: delegation.NumProc,
			HasStatus: func(proc uint32) bool { return proc != delegation.ProcNull },
		},
		"delegation", delegation.ProcName, acquireStatus,
	},
}

// names returns the names of a procedure and of its program with the version.
func names(s *rpcstats.ProcStats) (prog, proc string) {
	for _, g := range programs {
		if g.Prog == s.Prog && g.Vers == s.Vers {
			return fmt.Sprintf("%s%d", g.name, g.Vers), g.proc(s.Proc)
		}
	}
	return "other", "other"
}

// outcomeName returns the standard's name for a failure of a call of s.
func outcomeName(s *rpcstats.ProcStats, o rpcstats.Outcome) string {
	for _, g := range programs {
		if g.Prog == s.Prog && g.Vers == s.Vers && o.Kind == rpcstats.OutcomeStatus {
			return g.status(o.Code)
		}
	}
	return o.String()
}
