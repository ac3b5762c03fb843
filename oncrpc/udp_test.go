package oncrpc

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBudget checks that replies longer than their calls are bounded, and that
// others are not.
func TestBudget(t *testing.T) {
	var b excessBudget
	now := time.Unix(1<<30, 0)
	for range ExcessBurst / 1024 {
		require.True(t, b.allowReply(1024, now))
	}
	assert.False(t, b.allowReply(1, now))
	assert.True(t, b.allowReply(0, now))
	assert.True(t, b.allowReply(-100, now))
	now = now.Add(time.Second)
	assert.False(t, b.allowReply(excessRate+1, now))
	assert.True(t, b.allowReply(excessRate, now))
	assert.False(t, b.allowReply(1, now))
	now = now.Add(time.Hour)
	assert.True(t, b.allowReply(ExcessBurst, now))
	assert.False(t, b.allowReply(1, now), "no more after a longer time")
}

// A blockingService is a service whose calls wait until they may go on.
type blockingService chan struct{}

func (g blockingService) Serve(ctx context.Context, _ *Request, rep *Reply) bool {
	select {
	case <-g:
		rep.Head = append(rep.Head, 'x')
		return true
	case <-ctx.Done():
		return false
	}
}

// TestPacketsBounded checks that calls over UDP do not wait for each other, that no more run than have
// places, and that Shutdown ends them.
func TestPacketsBounded(t *testing.T) {
	p, err := ListenPackets("127.0.0.1:0")
	require.NoError(t, err)
	g, served := make(blockingService), make(chan error)
	go func() { served <- p.Serve(g) }()
	c, err := net.Dial("udp", p.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	reply := make([]byte, 10)
	ask := func() {
		_, err := c.Write([]byte("call"))
		require.NoError(t, err)
	}
	for range maxPackets {
		ask()
	}
	for range maxPackets {
		g <- struct{}{}
		_, err := c.Read(reply)
		require.NoError(t, err)
	}
	for len(p.slots) < maxPackets {
		ask()
	}
	ask()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, p.Shutdown(ctx), context.DeadlineExceeded)
	assert.NoError(t, <-served)
	assert.NoError(t, p.Shutdown(t.Context()))
	assert.Empty(t, p.slots)
}

// TestPacketsInClear checks that a call that asks for TLS is denied over UDP, which has
// none (R9289-5.1.2-1).
func TestPacketsInClear(t *testing.T) {
	p, err := ListenPackets("127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- p.Serve(echoMux()) }()
	c, err := net.Dial("udp", p.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	probe := newCallMessage(7, testProg, 2, 0)
	probe[27] = byte(rpcmsg.AuthTLS)
	_, err = c.Write(probe)
	require.NoError(t, err)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
	reply := make([]byte, 100)
	n, err := c.Read(reply)
	require.NoError(t, err)
	assert.Equal(t, rpcmsg.AppendAuthError(nil, 7, rpcmsg.AuthBadCred), reply[:n])
	require.NoError(t, p.Shutdown(t.Context()))
	require.NoError(t, <-served)
}
