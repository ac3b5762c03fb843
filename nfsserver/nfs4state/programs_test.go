package nfs4state

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/internal/racetest"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// whole is every cell of an object.
var whole = span{0, cells - 1}

// clientSteps returns a program of one client: each step that names no open-owner or
// lock-owner uses the first one.
func clientSteps(peer int, program ...step) []step {
	for i := range program {
		program[i].peer, program[i].every = peer, true
	}
	return program
}

func openStep(access, deny uint32) step { return step{do: doOpen, access: access, deny: deny} }

func lockStep(first, last int, kind locks.Kind) step {
	return step{do: doLock, span: span{first, last}, kind: kind}
}

func unlockStep(first, last int) step { return step{do: doUnlock, span: span{first, last}} }

// programs are short programs of clients, of host processes and of time, whose
// steps come in every order.
var programs = map[string][][]step{
	"exclusive locks": {
		clientSteps(0, openStep(3, 0), lockStep(0, 4, locks.Exclusive), unlockStep(2, 2), step{do: doClose}),
		clientSteps(1, openStep(3, 0), lockStep(2, 7, locks.Exclusive), unlockStep(4, 7), step{do: doClose}),
	},
	"shared locks, upgraded": {
		clientSteps(0, openStep(3, 0), lockStep(0, 7, locks.Shared), lockStep(3, 4, locks.Exclusive), unlockStep(0, 3)),
		clientSteps(1, openStep(3, 0), lockStep(4, 4, locks.Shared), lockStep(4, 4, locks.Exclusive), unlockStep(4, 4)),
	},
	"exclusive locks, downgraded, and a host process": {
		clientSteps(0, openStep(3, 0), lockStep(0, 7, locks.Exclusive), lockStep(5, 6, locks.Shared), unlockStep(0, 2)),
		clientSteps(1, openStep(1, 0), lockStep(6, 7, locks.Shared), step{do: doTest, span: whole, kind: locks.Exclusive}),
		{
			{do: doLocal, span: span{1, 5}, kind: locks.Shared},
			{do: doLocal, span: span{0, 1}, kind: locks.Exclusive},
			{do: doLocal, span: whole, kind: locks.None},
		},
	},
	"deny modes": {
		clientSteps(0, openStep(1, 2), openStep(2, 0), step{do: doDowngrade, access: 1, deny: 2}, step{do: doClose}),
		clientSteps(1, openStep(1, 0), openStep(2, 1), step{do: doDowngrade, access: 2, deny: 1}, step{do: doClose}),
	},
	"deny modes and special stateids": {
		clientSteps(0, openStep(1, 2), step{do: doDowngrade, access: 1, deny: 2}, openStep(3, 1), step{do: doClose}),
		{{do: doSpecial, access: 1}, {do: doSpecial}, {do: doEndSpecial}, {do: doEndSpecial}},
	},
	"a lease that expires": {
		clientSteps(0, openStep(3, 1), lockStep(0, 7, locks.Exclusive), step{do: doTest, span: whole, kind: locks.Shared}, step{do: doClose}),
		clientSteps(1, openStep(3, 0), lockStep(7, 7, locks.Exclusive), step{do: doClose}),
		{{do: doSleep, sleep: testLease + 1}, {do: doSweep}},
	},
	"two leases": {
		clientSteps(0, openStep(3, 0), lockStep(0, 7, locks.Shared), step{do: doBeginCall}, step{do: doEndCall}),
		clientSteps(1, openStep(3, 0), lockStep(3, 3, locks.Exclusive)),
		{{do: doSleep, sleep: 2*testLease + 1}, {do: doSweep}, {do: doLocal, span: whole, kind: locks.Exclusive}},
	},
	"a reboot": {
		clientSteps(0, openStep(3, 1), lockStep(0, 7, locks.Exclusive), step{do: doExchange}, step{do: doReboot}, step{do: doComplete}),
		clientSteps(1, openStep(3, 0), lockStep(7, 7, locks.Exclusive), step{do: doBeginCall}, step{do: doEndCall}),
	},
	"a client that leaves": {
		clientSteps(0, openStep(3, 1), step{do: doClose}, step{do: doDestroySession}, step{do: doDestroyClient}),
		clientSteps(0, lockStep(0, 7, locks.Exclusive), step{do: doAddSession}, step{do: doBeginCall}, step{do: doEndCall}),
		clientSteps(1, openStep(3, 0), step{do: doUsurp}),
	},
	"OPENs that fail": {
		clientSteps(0, openStep(1, 0), step{do: doTryOpen, access: 2, deny: 1}, step{do: doUndo}, step{do: doDowngrade, access: 1}),
		clientSteps(0, step{do: doTryOpen, access: 2, deny: 1}, step{do: doUndo, owner: 1}, step{do: doSettle}, step{do: doClose}),
	},
	"revocation": {
		clientSteps(0, openStep(3, 0), lockStep(0, 7, locks.Exclusive), step{do: doRevoke}, step{do: doFree}),
		clientSteps(1, openStep(3, 0), lockStep(7, 7, locks.Exclusive), unlockStep(7, 7), step{do: doRevoke}),
	},
}

// TestPrograms takes the steps of short programs in every order; with the race
// detector, in some orders.
func TestPrograms(t *testing.T) {
	part := 1
	if testing.Short() || racetest.Enabled {
		part = 20
	}
	for name, list := range programs {
		t.Run(name, func(t *testing.T) {
			n := 0
			playInterleaved(list, nil, func(order []step) {
				if n++; n%part != 0 {
					return
				}
				r := newModelRun(t, name)
				for _, st := range order {
					r.takeStep(st)
				}
				r.checkFinish()
			})
			t.Logf("%d orders", n)
		})
	}
}

// playInterleaved calls play with the steps of some programs in every order that
// keeps the order of each program.
func playInterleaved(programs [][]step, before []step, play func([]step)) {
	left := false
	for i, p := range programs {
		if len(p) == 0 {
			continue
		}
		left = true
		rest := append([][]step{}, programs...)
		rest[i] = p[1:]
		playInterleaved(rest, append(before[:len(before):len(before)], p[0]), play)
	}
	if !left {
		play(before)
	}
}

// TestUndoAfterDowngrade: an OPEN that OPEN_DOWNGRADE has reverted while it was
// in flight leaves nothing, however it ends.
func TestUndoAfterDowngrade(t *testing.T) {
	for _, last := range []stepAction{doUndo, doSettle} {
		r := newModelRun(t, deedNames[last])
		for _, st := range clientSteps(0,
			openStep(nfs4.ShareRead, 0), step{do: doTryOpen, access: nfs4.ShareWrite}, step{do: doDowngrade, access: nfs4.ShareRead},
			step{do: doTryOpen, access: nfs4.ShareWrite}, step{do: doUndo, owner: 1}, step{do: last},
		) {
			r.takeStep(st)
		}
		r.checkFinish()
	}
}
