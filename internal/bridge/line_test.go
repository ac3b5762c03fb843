package bridge

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A waiting is a service that keeps calls until release is closed.
type waiting struct {
	oncrpc.Service
	arrived chan []byte
	release chan struct{}
}

func (w *waiting) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	if c, _ := oncrpc.ParseCall(req.Msg); signed(&c) {
		w.arrived <- append([]byte(nil), req.Msg...)
		select {
		case <-w.release:
		case <-ctx.Done():
			return false
		}
	}
	return w.Service.Serve(ctx, req, rep)
}

// waitingRig is a rig whose server keeps signed calls.
func waitingRig(t *testing.T) (*rig, *waiting) {
	w := &waiting{arrived: make(chan []byte, 200), release: make(chan struct{})}
	return newRig(t, setup{service: func(next oncrpc.Service) oncrpc.Service { w.Service = next; return w }}), w
}

// signedCall returns a call that claims a signature.
func signedCall(xid uint32) []byte {
	return sealed(call(xid, nfs3.Program, nfs3.Version, nfs3.ProcRead, random(200, byte(xid))))
}

// noLines waits until no client has a line.
func noLines(t *testing.T, g *rig) {
	t.Helper()
	require.Eventually(t, func() bool { return g.bridge.places.Taken() == 0 }, 5*time.Second, time.Millisecond)
}

// TestSigned checks that the server receives signed calls as their clients sent them,
// XIDs included, though two clients use one XID at a time, and unsigned calls too. The
// lines end with the clients' connections.
func TestSigned(t *testing.T) {
	g, w := waitingRig(t)
	one, other := dialRaw(t, g.addr), dialRaw(t, g.addr)
	msgs := [][]byte{signedCall(7), signedCall(7)}
	msgs[1][60] ^= 1
	for i, c := range []raw{one, other} {
		c.send(msgs[i])
		assert.Equal(t, msgs[i], <-w.arrived)
	}
	unsigned := call(7, nfs3.Program, nfs3.Version, nfs3.ProcNull, nil)
	one.send(unsigned)
	assert.Equal(t, unsigned[:4], one.reply()[:4])
	close(w.release)
	assert.Equal(t, byte(7), other.reply()[3])
	assert.Equal(t, byte(7), one.reply()[3])
	one.send(signedCall(0))
	assert.Equal(t, signedCall(0), <-w.arrived)
	assert.Equal(t, byte(0), one.reply()[3])
	assert.Equal(t, 2, g.bridge.places.Taken())
	one.Close()
	other.Close()
	noLines(t, g)
}

// TestSignedAgain checks that a client that sends a signed call again loses its
// connection, and no other client does.
func TestSignedAgain(t *testing.T) {
	g, w := waitingRig(t)
	c, other := dialRaw(t, g.addr), dialRaw(t, g.addr)
	for _, c := range []raw{c, other} {
		c.send(signedCall(7))
		<-w.arrived
	}
	c.send(signedCall(7))
	c.closed()
	assert.Empty(t, w.arrived)
	close(w.release)
	assert.Equal(t, byte(7), other.reply()[3])
	other.send(signedCall(7))
	assert.Equal(t, byte(7), other.reply()[3], "the first is answered")
	other.Close()
	noLines(t, g)
}

// TestSignedServerLost checks that clients with signed calls lose their connections
// with the server, and do better on new ones: the bridge repeats no signed call.
func TestSignedServerLost(t *testing.T) {
	g, w := waitingRig(t)
	c := dialRaw(t, g.addr)
	c.send(signedCall(7))
	<-w.arrived
	g.far.stop()
	c.closed()
	away := dialRaw(t, g.addr)
	away.send(signedCall(8))
	away.closed()
	g.far.start()
	close(w.release)
	again := dialRaw(t, g.addr)
	again.send(signedCall(9))
	assert.Equal(t, byte(9), again.reply()[3])
	assert.Len(t, w.arrived, 1)
	again.Close()
	noLines(t, g)
}

// TestSignedLimit checks that one host's clients leave lines to others.
func TestSignedLimit(t *testing.T) {
	g, w := waitingRig(t)
	close(w.release)
	var all []raw
	for range maxLines / 2 {
		c := dialRaw(t, g.addr)
		c.send(signedCall(1))
		c.reply()
		all = append(all, c)
	}
	c := dialRaw(t, g.addr)
	c.send(signedCall(1))
	c.closed()
	other := dialFrom(t, "127.0.0.2", g.addr)
	other.send(signedCall(1))
	other.reply()
	all[0].Close()
	require.Eventually(t, func() bool { return g.bridge.places.Taken() == maxLines/2 }, 5*time.Second, time.Millisecond)
	for _, c := range append(all, other) {
		c.Close()
	}
	noLines(t, g)
}

// TestSignedDenied checks that signed calls are denied without lines.
func TestSignedDenied(t *testing.T) {
	g := newRig(t, setup{})
	g.bridge.Dial = nil
	c := dialRaw(t, g.addr)
	c.send(signedCall(7))
	assert.Equal(t, rpcmsg.AppendAuthError(nil, 7, rpcmsg.AuthTooWeak), c.reply())
}

// TestUnsigned checks that only calls without a signature are for a cache of replies.
func TestUnsigned(t *testing.T) {
	for i, msg := range [][]byte{signedCall(1), call(1, nfs3.Program, nfs3.Version, nfs3.ProcMkdir, nil), nil, {1, 2, 3, 4}} {
		assert.Equal(t, i == 1, Unsigned(msg), fmt.Sprint(i))
	}
}
