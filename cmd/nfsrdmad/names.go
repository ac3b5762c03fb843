package main

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs/nfsacl"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfs/nsm"
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

func nfs4Status(code uint32) string { return nfs4.Status(code).String() }

// nfs4Proc returns the name that the calls of version 4 are counted under: NULL,
// the operation that decides the cost of a COMPOUND, or COMPOUND if none can be
// found.
func nfs4Proc(proc uint32) string {
	switch proc {
	case nfs4.ProcNull:
		return "NULL"
	case nfs4.ProcCompound:
		return "COMPOUND"
	}
	return nfs4.Op(proc).String()
}

// nfs4ProcOf returns the number under which a call of version 4 is counted. No
// operation has the number of a procedure.
func nfs4ProcOf(proc uint32, msg []byte) uint32 {
	if op := nfs4.MainOp(msg); op >= nfs4.OpAccess {
		return uint32(op)
	}
	return proc
}

// operationName returns the name of a counted operation of version 4.
func operationName(op uint32) string {
	if nfs4.Op(op) >= nfs4.NumOp {
		return nfs4.OpIllegal.String()
	}
	return nfs4.Op(op).String()
}

func mountStatus(code uint32) string { return mount3.Status(code).String() }

// lockManager returns a version of NLM. Its results begin with a cookie, so they are counted without their
// status.
func lockManager(vers uint32) program {
	return program{
		rpcstats.Observed{Prog: nlm4.Program, Vers: vers, Procs: nlm4.NumProc, HasStatus: func(uint32) bool { return false }},
		"nlm", nlm4.ProcName, func(uint32) string { return "" },
	}
}

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
			Prog: nfs4.Program, Vers: nfs4.Version, Procs: uint32(nfs4.NumOp),
			HasStatus: func(proc uint32) bool { return proc != nfs4.ProcNull },
			ProcOf:    nfs4ProcOf,
		},
		"nfs", nfs4Proc, nfs4Status,
	},
	{
		rpcstats.Observed{
			Prog: mount3.Program, Vers: mount3.Version, Procs: mount3.NumProc,
			HasStatus: func(proc uint32) bool { return proc == mount3.ProcMnt },
		},
		"mount", mount3.ProcName, mountStatus,
	},
	lockManager(nlm4.Version1), lockManager(nlm4.Version3), lockManager(nlm4.Version),
	{
		rpcstats.Observed{
			Prog: nsm.Program, Vers: nsm.Version, Procs: nsm.NumProc,
			HasStatus: func(uint32) bool { return false },
		},
		"nsm", nsm.ProcName, func(uint32) string { return "" },
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
