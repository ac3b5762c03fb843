package nfs4state

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// lockOf returns the arguments of a Machine's LOCK of a whole object.
func lockOf(key string, reclaim bool) *Lock {
	return &Lock{Owner: []byte("o"), Key: key, Range: locks.Range{End: locks.ToEnd}, Exclusive: true, Reclaim: reclaim, Mark: key}
}

// TestMachineRevokedInGrace checks that a Machine of which some state was revoked in the grace period
// reclaims nothing after another restart: others may have had what was revoked.
func TestMachineRevokedInGrace(t *testing.T) {
	g := newRestartingState(t)
	m := g.enterTestMachine("m")
	for _, key := range []string{"gone", "stays"} {
		want(t, "LOCK", m.lockStatus(lockOf(key, false)), nfs4.OK)
	}
	g.crashState()
	m = g.enterTestMachine("m")
	for _, key := range []string{"gone", "stays"} {
		want(t, "reclaim", m.lockStatus(lockOf(key, true)), nfs4.OK)
	}
	g.Revoke(func(mark any) bool { return mark == "gone" })
	g.MarkNotified(m.Machine)
	want(t, "EndGrace", g.EndGrace(), true)
	want(t, "LOCK of what was revoked", g.enterTestMachine("other").lockStatus(lockOf("gone", false)), nfs4.OK)
	g.crashState()
	want(t, "reclaim after another restart", g.enterTestMachine("m").lockStatus(lockOf("gone", true)), nfs4.ErrNoGrace)
}

// TestMachineUnawareOfRestart checks that a Machine that was not notified of a restart, and so
// believes that it still has its earlier locks, reclaims nothing after another restart.
func TestMachineUnawareOfRestart(t *testing.T) {
	for _, notified := range []bool{false, true} {
		g := newRestartingState(t)
		want(t, "LOCK", g.enterTestMachine("m").lockStatus(lockOf("f", false)), nfs4.OK)
		g.crashState()
		want(t, "EndGrace", g.EndGrace(), true)
		other, m := g.enterTestMachine("other"), g.enterTestMachine("m")
		want(t, "LOCK by another", other.lockStatus(lockOf("f", false)), nfs4.OK)
		want(t, "UNLOCK by another", other.Unlock(lockOf("f", false)), nfs4.OK)
		want(t, "LOCK of another file", m.lockStatus(lockOf("g", false)), nfs4.OK)
		status := nfs4.ErrNoGrace
		if notified {
			g.MarkNotified(m.Machine)
			status = nfs4.OK
		}
		g.crashState()
		want(t, "reclaim", g.enterTestMachine("m").lockStatus(lockOf("g", true)), status)
	}
}
