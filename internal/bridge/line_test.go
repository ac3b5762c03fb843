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

// A blockingService is a service that keeps calls until release is closed.
type blockingService struct {
	oncrpc.Service
	arrived chan []byte
	release chan struct{}
}

func (w *blockingService) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	if c, _ := oncrpc.ParseCall(req.Msg); isSigned(&c) {
		w.arrived <- append([]byte(nil), req.Msg...)
		select {
		case <-w.release:
		case <-ctx.Done():
			return false
		}
	}
	return w.Service.Serve(ctx, req, rep)
}

// newBlockingBridge returns a testBridge whose server keeps signed calls waiting.
func newBlockingBridge(t *testing.T) (*testBridge, *blockingService) {
	w := &blockingService{arrived: make(chan []byte, 200), release: make(chan struct{})}
	return newTestBridge(t, bridgeOptions{service: func(next oncrpc.Service) oncrpc.Service { w.Service = next; return w }}), w
}

// signedCall returns a call that claims a signature.
func signedCall(xid uint32) []byte {
	return withGSSCred(encodeCall(xid, nfs3.Program, nfs3.Version, nfs3.ProcRead, randomBytes(200, byte(xid))))
}

// awaitNoOwnConns waits until no client has its own connection.
func awaitNoOwnConns(t *testing.T, g *testBridge) {
	t.Helper()
	require.Eventually(t, func() bool { return g.bridge.unreservedSlots.Taken() == 0 }, 5*time.Second, time.Millisecond)
}

// TestSigned checks that the server receives signed calls as their clients sent
// them, XIDs included, although two clients use one XID at a time, and unsigned
// calls too. The own connections are closed with the clients' connections.
func TestSigned(t *testing.T) {
	g, w := newBlockingBridge(t)
	one, other := dialRaw(t, g.addr), dialRaw(t, g.addr)
	msgs := [][]byte{signedCall(7), signedCall(7)}
	msgs[1][60] ^= 1
	for i, c := range []rawConn{one, other} {
		c.sendMessage(msgs[i])
		assert.Equal(t, msgs[i], <-w.arrived)
	}
	unsigned := encodeCall(7, nfs3.Program, nfs3.Version, nfs3.ProcNull, nil)
	one.sendMessage(unsigned)
	assert.Equal(t, unsigned[:4], one.readReply()[:4])
	close(w.release)
	assert.Equal(t, byte(7), other.readReply()[3])
	assert.Equal(t, byte(7), one.readReply()[3])
	one.sendMessage(signedCall(0))
	assert.Equal(t, signedCall(0), <-w.arrived)
	assert.Equal(t, byte(0), one.readReply()[3])
	assert.Equal(t, 2, g.bridge.unreservedSlots.Taken())
	one.Close()
	other.Close()
	awaitNoOwnConns(t, g)
}

// TestSignedAgain checks that a client that sends a signed call again loses its
// connection, and no other client does.
func TestSignedAgain(t *testing.T) {
	g, w := newBlockingBridge(t)
	c, other := dialRaw(t, g.addr), dialRaw(t, g.addr)
	for _, c := range []rawConn{c, other} {
		c.sendMessage(signedCall(7))
		<-w.arrived
	}
	c.sendMessage(signedCall(7))
	c.assertClosed()
	assert.Empty(t, w.arrived)
	close(w.release)
	assert.Equal(t, byte(7), other.readReply()[3])
	other.sendMessage(signedCall(7))
	assert.Equal(t, byte(7), other.readReply()[3], "the first is answered")
	other.Close()
	awaitNoOwnConns(t, g)
}

// TestSignedServerLost checks that clients with signed calls lose their connections
// with the server, and do better on new ones: the bridge repeats no signed call.
func TestSignedServerLost(t *testing.T) {
	g, w := newBlockingBridge(t)
	c := dialRaw(t, g.addr)
	c.sendMessage(signedCall(7))
	<-w.arrived
	g.server.killServer()
	c.assertClosed()
	away := dialRaw(t, g.addr)
	away.sendMessage(signedCall(8))
	away.assertClosed()
	g.server.startServer()
	close(w.release)
	again := dialRaw(t, g.addr)
	again.sendMessage(signedCall(9))
	assert.Equal(t, byte(9), again.readReply()[3])
	assert.Len(t, w.arrived, 1)
	again.Close()
	awaitNoOwnConns(t, g)
}

// TestSignedLimit checks that one host's clients leave connections for others.
func TestSignedLimit(t *testing.T) {
	g, w := newBlockingBridge(t)
	close(w.release)
	var all []rawConn
	for range maxOwnConns / 2 {
		c := dialRaw(t, g.addr)
		c.sendMessage(signedCall(1))
		c.readReply()
		all = append(all, c)
	}
	c := dialRaw(t, g.addr)
	c.sendMessage(signedCall(1))
	c.assertClosed()
	other := dialFrom(t, "127.0.0.2", g.addr)
	other.sendMessage(signedCall(1))
	other.readReply()
	all[0].Close()
	require.Eventually(t, func() bool { return g.bridge.unreservedSlots.Taken() == maxOwnConns/2 }, 5*time.Second, time.Millisecond)
	for _, c := range append(all, other) {
		c.Close()
	}
	awaitNoOwnConns(t, g)
}

// TestSignedDenied checks that signed calls are denied if the bridge cannot dial
// connections for them.
func TestSignedDenied(t *testing.T) {
	g := newTestBridge(t, bridgeOptions{})
	g.bridge.Dial = nil
	c := dialRaw(t, g.addr)
	c.sendMessage(signedCall(7))
	assert.Equal(t, rpcmsg.AppendAuthError(nil, 7, rpcmsg.AuthTooWeak), c.readReply())
}

// TestUnsigned checks that only calls without a signature are for a cache of replies.
func TestUnsigned(t *testing.T) {
	for i, msg := range [][]byte{signedCall(1), encodeCall(1, nfs3.Program, nfs3.Version, nfs3.ProcMkdir, nil), nil, {1, 2, 3, 4}} {
		assert.Equal(t, i == 1, Unsigned(msg), fmt.Sprint(i))
	}
}
