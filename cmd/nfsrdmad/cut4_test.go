package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsclient/nfs4client"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/stretchr/testify/assert"
)

// TestSessionCutAtEachMessage is TestCutAtEachMessage with version 4.2: a session
// of the client's goes on over the next connection, and each change is made once.
// Each frame is cut at its end and at a byte within it.
//
// R8881-2.9.2-2, R8881-2.10.6.2-1, R8267-6.6-2.
func TestSessionCutAtEachMessage(t *testing.T) {
	g := newCountingServer(t)
	var next, ended, cuts, changes atomic.Int64
	round := func(k int) error {
		frame, how, within := int64(k/int(2*(cutKinds-1))), 1+cutKind(k/2%int(cutKinds-1)), k%2 == 1
		var seen atomic.Int64
		c := newCuttingProxy(t, g.endpoint.Addr.String(), func() cutFunc {
			return func(n int) (int, cutKind) {
				switch {
				case seen.Add(1) != frame+1:
					return 0, noCut
				case within:
					return rand.N(n), how
				}
				return n, how
			}
		})
		defer c.closeProxy()
		s := g.dialSession(t.Context(), c.addr())
		w := &nfs4Round{s: s, id: uint64(k << 8)}
		err := w.runRound(t.Context())
		if err == nil {
			err = s.Close(t.Context())
		}
		changes.Add(int64(w.changes))
		if cuts.Add(c.cuts.Load()); c.cuts.Load() == 0 {
			ended.Store(frame)
		}
		return err
	}
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for ended.Load() == 0 {
				k := int(next.Add(1) - 1)
				assert.NoError(t, round(k), "frame %d", k/int(2*(cutKinds-1)))
			}
		})
	}
	all.Wait()
	t.Logf("%d frames in a round, %d cuts, %d changes", ended.Load(), cuts.Load(), changes.Load())
	assert.Greater(t, ended.Load(), int64(40))
	g.fs.mu.Lock()
	defer g.fs.mu.Unlock()
	for change, n := range g.fs.executed {
		assert.Equal(t, 1, n, "%s: executed", change)
	}
	assert.Len(t, g.fs.executed, int(changes.Load()), "changes without a call")
}

// dialSession creates a version 4.2 session over RDMA. It tries again if the
// connection is cut.
func (g *countingServer) dialSession(ctx context.Context, addr string) *nfs4client.Session {
	for {
		s, err := nfs4client.Dial(ctx, nfs4client.Config{
			Dial: func(ctx context.Context) (nfs4client.Conn, error) {
				return rpcrdma.DialConn(ctx, g.device, addr, rpcrdma.ClientConnConfig{})
			},
			Network: "rdma", Minor: nfs4.Minor2, Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthSys}, Log: g.log,
		})
		if err == nil {
			return s
		}
	}
}

// A nfs4Round is one caller's round of version 4 calls, each of which changes
// something under a name or a number of its own.
type nfs4Round struct {
	s       *nfs4client.Session
	id      uint64 // number of the round and its next WRITE
	changes int
}

// runRound makes a directory with a file, and removes both.
func (w *nfs4Round) runRound(ctx context.Context) error {
	root, err := w.s.Walk(ctx, "/x")
	if err != nil {
		return err
	}
	name := fmt.Sprint(w.id)
	dir, err := w.s.Mkdir(ctx, root, "d"+name, 0o755)
	if err != nil {
		return fmt.Errorf("MKDIR: %w", err)
	}
	f, err := w.s.Open(ctx, dir, "f"+name, nfs4client.OpenFlags{Read: true, Write: true, Create: true, Exclusive: true, Mode: 0o600})
	if err != nil {
		return fmt.Errorf("OPEN: %w", err)
	}
	w.changes += 2
	if err := w.writeAndRead(ctx, f); err != nil {
		return err
	}
	if err := f.Close(ctx); err != nil {
		return fmt.Errorf("CLOSE: %w", err)
	}
	w.changes += 4 // the REMOVE of a directory becomes a Remove, which fails, and a Rmdir
	if err := w.s.Rename(ctx, dir, "f"+name, dir, "m"+name); err != nil {
		return fmt.Errorf("RENAME: %w", err)
	}
	if err := w.s.Remove(ctx, dir, "m"+name); err != nil {
		return fmt.Errorf("REMOVE: %w", err)
	}
	return w.s.Remove(ctx, root, "d"+name)
}

// writeAndRead writes and reads, in messages of several forms.
func (w *nfs4Round) writeAndRead(ctx context.Context, f *nfs4client.File) error {
	for i, n := range []int{100, 5000, 100_000} {
		w.id++
		p := binary.BigEndian.AppendUint64(make([]byte, 0, n+8), w.id)
		for rng := rand.New(rand.NewPCG(w.id, 0)); len(p) < n; {
			p = binary.BigEndian.AppendUint64(p, rng.Uint64())
		}
		w.changes++
		if _, err := f.WriteAt(ctx, p[:n], 0, nfs4.Stable(i%3)); err != nil {
			return fmt.Errorf("WRITE: %w", err)
		}
		got := make([]byte, n)
		if m, err := f.ReadAt(ctx, got, 0); m != n || err != nil && err != io.EOF || !bytes.Equal(got, p[:n]) {
			return fmt.Errorf("READ: %d of %d bytes, %v", m, n, err)
		}
	}
	_, err := f.Commit(ctx)
	return err
}
