package main

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/discover"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/roce"
	"github.com/nfsrdma/nfsrdma/rdma/roce/packet"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// randomLoopback returns a random loopback address, whose UDP port 4791 is probably
// free.
func randomLoopback() netip.Addr {
	return netip.AddrFrom4([4]byte{127, byte(1 + rand.N(250)), byte(rand.N(256)), byte(1 + rand.N(250))})
}

// newDiscoverPort returns a client's port at its own address.
func newDiscoverPort(t *testing.T) (*roce.Device, *discover.Port) {
	t.Helper()
	wire, err := roce.ListenUDP(randomLoopback())
	require.NoError(t, err)
	dev := roce.Open(wire, roce.Config{})
	t.Cleanup(func() { assert.NoError(t, dev.Close()) })
	p, err := discover.NewPort(dev)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return dev, p
}

// minuteContext returns a context that bounds a wait for an immediate result.
func minuteContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestDiscover checks that a client learns the address and the exports of the
// daemon, that a registered client is notified of a restart even after a kill,
// and that the counters are those of the daemon's calls.
func TestDiscover(t *testing.T) {
	at, state, dir := randomLoopback(), t.TempDir(), t.TempDir()
	start := func() *testDaemon {
		return startDaemon(t, "--state", state, "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--discover", at.String(), dir+"=/x", "mem:1MiB=/y")
	}
	s := start()
	assert.Contains(t, s.ready, " discover="+at.String()+" ")
	_, p := newDiscoverPort(t)
	list, err := p.Find(minuteContext(t), at)
	require.NoError(t, err)
	require.Len(t, list, 1)
	assert.Equal(t, []string{"/x", "/y"}, list[0].Exports)
	assert.Equal(t, s.transportAddr(t, "rdma"), list[0].RDMA.String())
	assert.Equal(t, s.transportAddr(t, "tcp"), list[0].TCP.String())
	assert.NotEmpty(t, list[0].Version)

	c, err := oncrpc.DialTCP(t.Context(), s.transportAddr(t, "tcp"), oncrpc.ClientConfig{})
	require.NoError(t, err)
	defer c.Close()
	for range 7 {
		x := oncrpc.Exchange{Prog: 100003, Vers: 3}
		require.NoError(t, c.Call(t.Context(), &x))
		x.Release()
	}
	require.NoError(t, p.Watch(minuteContext(t), at, discover.MinInterval, time.Minute, func(c *discover.Counters) bool {
		assert.Equal(t, list[0].Boot, c.Boot)
		require.Len(t, c.Transports, 2)
		assert.Equal(t, "tcp", c.Transports[1].Name)
		assert.EqualValues(t, 1, c.Transports[1].Connections)
		require.Len(t, c.Procs, 1)
		assert.Equal(t, "nfs3 NULL", c.Procs[0].Program+" "+c.Procs[0].Name)
		assert.EqualValues(t, 7, c.Procs[0].Calls)
		return false
	}))

	var heard atomic.Int32
	told := make(chan struct{})
	ctx, leave := context.WithCancel(minuteContext(t))
	ended := make(chan error, 1)
	_, q := newDiscoverPort(t)
	go func() {
		ended <- q.Attend(ctx, at, func() {
			if heard.Add(1) == 1 {
				close(told)
			}
		})
	}()
	file := filepath.Join(state, "discover.clients")
	for {
		if _, err := os.Stat(file); err == nil {
			break
		}
		require.NoError(t, ctx.Err())
		time.Sleep(time.Millisecond)
	}
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.EqualValues(t, 0o600, info.Mode().Perm(), "it has the clients' tokens")
	kept, err := os.ReadFile(file)
	require.NoError(t, err)
	s.stop()
	require.Equal(t, cli.ExitOK, <-s.status)
	s.status <- cli.ExitOK
	require.NoError(t, os.WriteFile(file, kept, 0o600)) // as after a kill
	start()
	select {
	case <-told:
	case <-ctx.Done():
		t.Error("no client was notified")
	}
	leave()
	assert.NoError(t, <-ended)
	assert.EqualValues(t, 1, heard.Load())
}

// TestDiscoverHostile checks that arbitrary input at the port does not stop the
// daemon from answering others.
func TestDiscoverHostile(t *testing.T) {
	at := randomLoopback()
	startDaemon(t, "--listen", "127.0.0.1:0", "--tcp", "", "--discover", at.String(), t.TempDir()+"=/x")
	dev, _ := newDiscoverPort(t)
	ud, err := dev.NewProtectionDomain().NewUD(roce.UDConfig{})
	require.NoError(t, err)
	require.NoError(t, ud.Start(1))
	to := roce.Destination{Address: roce.Address{Addr: at}, QP: discover.QP, QKey: discover.QKey}
	group := roce.Destination{Address: roce.Address{Addr: discover.Group(at)}, QP: packet.MulticastQP, QKey: discover.QKey}
	for i := range 2000 {
		b := make([]byte, rand.N(1100))
		for j := range b {
			b[j] = byte(rand.N(256))
		}
		if i%2 == 0 { // passes the first check
			b = append(discover.Request{Kind: discover.Kind(rand.N(12)), Cookie: rand.Uint64()}.AppendTo(nil), b...)
		}
		for _, to := range []roce.Destination{to, group} {
			require.NoError(t, ud.Post(roce.WR{Op: rdma.OpSend, Data: [][]byte{b}, To: to}))
		}
	}
	_, p := newDiscoverPort(t)
	list, err := p.Find(minuteContext(t), at)
	require.NoError(t, err)
	assert.Equal(t, []string{"/x"}, list[0].Exports)
}

// TestDiscoverErrors checks that errors contain a remedy.
func TestDiscoverErrors(t *testing.T) {
	taken := randomLoopback()
	wire, err := roce.ListenUDP(taken)
	require.NoError(t, err)
	defer wire.Close()
	for addr, want := range map[string]string{
		taken.String(): "UDP port 4791 of " + taken.String() + " is in use by a mount with -o notice, another nfsrdmad, or the kernel's RoCE (rdma_rxe): " +
			"use another local address with --discover, or omit it",
		":4791":   "--discover :4791: use a local address without a port: RoCEv2 uses UDP port 4791",
		"0.0.0.0": "--discover 0.0.0.0: roce: 0.0.0.0 is no address of a port",
	} {
		status, stdout, stderr := runCommand(t, "serve", "--state", t.TempDir(), "--control", "", "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0",
			"--log-level=error", "--discover", addr, t.TempDir())
		assert.Equal(t, cli.ExitError, status)
		assert.Empty(t, stdout)
		assert.Equal(t, "nfsrdmad: "+want+"\n", stderr)
	}
}
