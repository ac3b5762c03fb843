package iwarp

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
)

// testDevice is the tests' device. checkLeaks checks that it is empty at the end.
var testDevice = Open(Config{})

// deviceWith returns testDevice with another configuration.
func deviceWith(cfg Config) *Device { return deviceInDomain(cfg, nil) }

// deviceInDomain is deviceWith for a domain's connections.
func deviceInDomain(cfg Config, d *ProtectionDomain) *Device { return &Device{cfg, d, testDevice.rnic} }

// TestDevices checks that two devices in a process share neither connections
// nor counts, and that one's STags are unknown to the other.
func TestDevices(t *testing.T) {
	checkLeaks(t)
	server, client := Open(Config{}), Open(Config{})
	ln, err := server.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	in, out, accepted := newInbox(), newInbox(), make(chan rdma.Conn, 1)
	go func() {
		defer close(accepted)
		req, err := ln.Accept(t.Context())
		if !assert.NoError(t, err) {
			return
		}
		c, err := req.Accept(rdma.ConnConfig{Handler: in, Recvs: 1})
		if assert.NoError(t, err) {
			accepted <- c
		}
	}()
	c, err := client.Dial(t.Context(), ln.Addr().String(), rdma.ConnConfig{Handler: out})
	require.NoError(t, err)
	defer c.Close()
	s := <-accepted
	require.NotNil(t, s)
	defer s.Close()
	assert.Equal(t, []*Conn{c.(*Conn)}, client.Conns())
	assert.Equal(t, []*Conn{s.(*Conn)}, server.Conns())

	r, err := c.Register(make([]byte, 8), rdma.RemoteWrite)
	require.NoError(t, err)
	assert.Equal(t, 1, client.Stats().Regions)
	assert.Zero(t, server.Stats().Regions)
	require.NoError(t, c.Post(
		rdma.WR{Op: rdma.OpSend, Data: [][]byte{[]byte("hello")}},
		rdma.WR{Op: rdma.OpWrite, Data: [][]byte{{1}}, Remote: rdma.Remote{STag: r.STag()}},
	))
	assert.Equal(t, "hello", string(in.nextMessage(t)))
	require.ErrorIs(t, in.closeError(t), ddp.ErrInvalidSTag, "not: of another Stream")
	out.closeError(t)

	sent, received := client.Stats(), server.Stats()
	assert.EqualValues(t, 1, sent.ConnectionsTotal)
	assert.EqualValues(t, 1, received.ConnectionsTotal)
	assert.Zero(t, sent.Received.Bytes-received.Sent.Bytes)
	assert.EqualValues(t, 6, sent.Sent.Bytes)
	assert.EqualValues(t, 5, received.Received.Bytes)
	assert.Empty(t, sent.TerminatesSent)
	assert.Len(t, received.TerminatesSent, 1)
	assert.Empty(t, client.Conns())
	assert.Empty(t, server.Conns())
}
