package nfs4server

import (
	"bytes"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs4state"
)

// willing makes a LOCK wait in the queue of the current file, if the client is willing
// to wait.
func (x *compound) willing(args *nfs4state.Lock, kind nfs4.LockType) {
	if kind != nfs4.LockReadWait && kind != nfs4.LockWriteWait || args.Reclaim {
		return
	}
	s, id := x.server, x.session.ClientID()
	object := bytes.Clone(x.fh(&x.current))
	args.Tell = func(w *nfs4state.Waiting) {
		notice := nfs4.CBNotifyLockArgs{Object: object, Owner: nfs4.StateOwner{ClientID: id, Owner: []byte(w.Owner())}}
		s.callbacks.add(&callback{
			client: id, op: nfs4.CBOpNotifyLock, args: &notice, hint: true, wanted: func() bool { return s.state.MayCome(w) },
		})
	}
}

// lookEvery is how often the server looks for locks that have become free with no call
// of a client.
const lookEvery = time.Second

// look makes the server look for locks while any client waits for one.
func (s *Server) look() {
	if s.looking.CompareAndSwap(false, true) && !s.callbacks.begin(s.keepLooking) {
		s.looking.Store(false)
	}
}

func (s *Server) keepLooking() {
	every := time.NewTicker(lookEvery)
	defer every.Stop()
	for {
		select {
		case <-s.callbacks.ctx.Done():
			return
		case <-every.C:
		}
		if s.state.LooksAgain() {
			continue
		}
		s.looking.Store(false)
		if !s.state.Waits() || !s.looking.CompareAndSwap(false, true) {
			return
		}
	}
}
