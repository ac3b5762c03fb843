package nfs4server

import (
	"bytes"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
)

// notifyWhenFree makes a LOCK wait in the queue of the current file, if the client is willing
// to wait.
func (x *compound) notifyWhenFree(args *nfs4state.Lock, kind nfs4.LockType) {
	if kind != nfs4.LockReadWait && kind != nfs4.LockWriteWait || args.Reclaim {
		return
	}
	s, id := x.server, x.session.ClientID()
	object := bytes.Clone(x.fileHandle(&x.current))
	args.Tell = func(w *nfs4state.Waiting) {
		notice := nfs4.CBNotifyLockArgs{Object: object, Owner: nfs4.StateOwner{ClientID: id, Owner: []byte(w.Owner())}}
		s.callbacks.enqueue(&callback{
			client: id, op: nfs4.CBOpNotifyLock, args: &notice, isHint: true, isWanted: func() bool { return s.state.IsTurnOf(w) },
		})
	}
}

// lockPollInterval is how often the server looks for locks that have become free with no call
// of a client.
const lockPollInterval = time.Second

// startLockPolling makes the server look for locks, for clients of all versions, while any lock
// owner waits for one.
func (s *Server) startLockPolling() {
	if s.pollsLocks.CompareAndSwap(false, true) && !s.callbacks.startGoroutine(s.pollLocks) {
		s.pollsLocks.Store(false)
	}
}

func (s *Server) pollLocks() {
	ticker := time.NewTicker(lockPollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-s.callbacks.ctx.Done():
			return
		case <-ticker.C:
		}
		if s.state.PollLocks() {
			continue
		}
		s.pollsLocks.Store(false)
		if !s.state.HasLockWaiters() || !s.pollsLocks.CompareAndSwap(false, true) {
			return
		}
	}
}
