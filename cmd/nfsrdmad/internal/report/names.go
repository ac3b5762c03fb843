package report

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

// A Program is an RPC program whose calls are counted by procedure, with its names.
type Program struct {
	rpcstats.Observed
	Name       string // without the version
	ProcName   func(proc uint32) string
	StatusName func(code uint32) string
}

func nfsStatus(code uint32) string { return nfs3.Status(code).String() }
func acquireStatus(code uint32) string {
	if delegation.Status(code) == delegation.StatusRefused {
		return "REFUSED"
	}
	return nfsStatus(code)
}

func nfs4Status(code uint32) string { return nfs4.Status(code).String() }

// nfs4Proc returns the name under which NFSv4 calls are counted: NULL, the operation that
// determines a COMPOUND's cost, or COMPOUND if there is none.
func nfs4Proc(proc uint32) string {
	switch proc {
	case nfs4.ProcNull:
		return "NULL"
	case nfs4.ProcCompound:
		return "COMPOUND"
	}
	return nfs4.Op(proc).String()
}

// nfs4ProcOf returns the number under which an NFSv4 call is counted. No operation has the
// same number as a procedure.
func nfs4ProcOf(proc uint32, msg []byte) uint32 {
	if op := nfs4.MainOp(msg); op >= nfs4.OpAccess {
		return uint32(op)
	}
	return proc
}

// operationName names a counted NFSv4 operation.
func operationName(op uint32) string {
	if nfs4.Op(op) >= nfs4.NumOp {
		return nfs4.OpIllegal.String()
	}
	return nfs4.Op(op).String()
}

func mountStatus(code uint32) string { return mount3.Status(code).String() }

// newNLMProgram returns a version of NLM. Its results begin with a cookie, so its calls are
// counted without a status.
func newNLMProgram(vers uint32) Program {
	return Program{
		rpcstats.Observed{Prog: nlm4.Program, Vers: vers, Procs: nlm4.NumProc, HasStatus: func(uint32) bool { return false }},
		"nlm", nlm4.ProcName, func(uint32) string { return "" },
	}
}

// Programs are the RPC programs whose calls are counted.
var Programs = []Program{
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
	newNLMProgram(nlm4.Version1), newNLMProgram(nlm4.Version3), newNLMProgram(nlm4.Version),
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

// ProcNames names a procedure's program, with its version, and the procedure.
func ProcNames(s *rpcstats.ProcStats) (prog, proc string) {
	for _, g := range Programs {
		if g.Prog == s.Prog && g.Vers == s.Vers {
			return fmt.Sprintf("%s%d", g.Name, g.Vers), g.ProcName(s.Proc)
		}
	}
	return "other", "other"
}

// outcomeName returns the standard's name for a failed call's outcome.
func outcomeName(s *rpcstats.ProcStats, o rpcstats.Outcome) string {
	for _, g := range Programs {
		if g.Prog == s.Prog && g.Vers == s.Vers && o.Kind == rpcstats.OutcomeStatus {
			return g.StatusName(o.Code)
		}
	}
	return o.String()
}
