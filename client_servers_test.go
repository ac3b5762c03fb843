package nfsrdma

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/certtest"
	"github.com/nfsrdma/nfsrdma/internal/serverlist"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpctls"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// A gate is a host of a server: its connections may be refused, cut or never answered.
type gate struct {
	t        *testing.T
	listener net.Listener
	server   string

	mu     sync.Mutex
	closed bool  // new connections are closed at once
	mute   bool  // nothing is forwarded
	cuts   []int // of the next connections: after how many bytes from the server each is cut
	conns  map[net.Conn]bool
	resets int // by clients
}

// newGate opens a gate to a server.
func newGate(t *testing.T, server string) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g := &gate{t: t, listener: l, server: server, conns: make(map[net.Conn]bool)}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { g.forward(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		g.set(func() { g.closed = true })
		all.Wait()
	})
	return g
}

func (g *gate) addr() string { return g.listener.Addr().String() }

// set changes the gate. If it is then closed, its connections end.
func (g *gate) set(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
	if g.closed {
		for c := range g.conns {
			c.Close()
		}
	}
}

// forward forwards a connection until one end closes it.
func (g *gate) forward(c net.Conn) {
	defer c.Close()
	s, err := net.Dial("tcp", g.server)
	if err != nil {
		return
	}
	defer s.Close()
	limit := int64(1 << 40)
	g.set(func() {
		g.conns[c], g.conns[s] = true, true
		if len(g.cuts) > 0 {
			limit, g.cuts = int64(g.cuts[0]), g.cuts[1:]
		}
	})
	defer g.set(func() { delete(g.conns, c); delete(g.conns, s) })
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := io.Copy(unlessMute{s, g}, c); errors.Is(err, unix.ECONNRESET) {
			g.set(func() { g.resets++ })
		}
		s.Close()
	}()
	_, _ = io.CopyN(unlessMute{c, g}, s, limit)
	c.Close()
	s.Close()
	<-done
}

// unlessMute discards what is written while the gate is mute.
type unlessMute struct {
	io.Writer
	gate *gate
}

func (w unlessMute) Write(b []byte) (int, error) {
	w.gate.mu.Lock()
	mute := w.gate.mute
	w.gate.mu.Unlock()
	if mute {
		return len(b), nil
	}
	return w.Writer.Write(b)
}

// listExport is the export of the hosts in these tests.
const listExport = "/x"

// twoGates are two hosts of one server. Only the first is open.
func twoGates(t *testing.T, tcp bool) [2]*gate {
	t.Helper()
	s := startServer(t, ServerConfig{Exports: []nfsserver.Export{{
		Path: listExport, FS: mem.New(mem.Options{Size: 64 << 20}),
		Clients: exports.Everyone(exports.Options{Insecure: true, NoRootSquash: true}),
	}}})
	addr := s.rdma
	if tcp {
		addr = s.tcp
	}
	gates := [2]*gate{newGate(t, addr), newGate(t, addr)}
	gates[1].set(func() { gates[1].closed = true })
	return gates
}

func gateList(gates [2]*gate) string { return gates[0].addr() + "," + gates[1].addr() }

// swap closes the gate that is open, and opens the other one.
func swap(gates [2]*gate) {
	for _, g := range gates {
		g.set(func() { g.closed = !g.closed })
	}
}

func forTransports(t *testing.T, test func(t *testing.T, tcp bool)) {
	t.Run("rdma", func(t *testing.T) { test(t, false) })
	t.Run("tcp", func(t *testing.T) { test(t, true) })
}

// TestServerListCut cuts connections to the host that takes over after each of the first
// bytes that the server sends: of the connection that asks, of the one that is used, and of
// both. Each time, a call in progress is completed.
func TestServerListCut(t *testing.T) {
	forTransports(t, func(t *testing.T, tcp bool) {
		gates := twoGates(t, tcp)
		c, err := Dial(t.Context(), gateList(gates), ClientConfig{TCP: tcp, Export: listExport, Log: silent})
		require.NoError(t, err)
		defer c.Close()
		fs, err := c.Mount(t.Context(), listExport)
		require.NoError(t, err)
		serves := 0
		for _, cut := range []int{0, 1, 20, 27, 40, 64, 100, 150} {
			for _, cuts := range [][]int{{cut}, {1 << 30, cut}, {cut, cut}} {
				serves = 1 - serves
				gates[serves].set(func() { gates[serves].cuts = cuts })
				swap(gates)
				content := bytes.Repeat([]byte{byte(cut)}, 10_000)
				writeFile(t, fs, "file", content)
				assert.Equal(t, string(content), readText(t, fs, "file"))
				assert.Equal(t, gates[serves].addr(), c.Server())
			}
		}
	})
}

// TestServerListSilent checks that a host that falls silent with calls in flight is left
// for the one that serves, within a second or two. Its connections are reset: what the client
// has not sent must not reach it later.
func TestServerListSilent(t *testing.T) {
	forTransports(t, func(t *testing.T, tcp bool) {
		gates := twoGates(t, tcp)
		c, err := Dial(t.Context(), gateList(gates), ClientConfig{TCP: tcp, Connections: 2, Export: listExport, Log: silent})
		require.NoError(t, err)
		defer c.Close()
		fs, err := c.Mount(t.Context(), listExport)
		require.NoError(t, err)
		gates[0].set(func() { gates[0].mute = true })
		gates[1].set(func() { gates[1].closed = false })
		began := time.Now()
		writeFile(t, fs, "file", []byte("content"))
		assert.Less(t, time.Since(began), 10*time.Second) // on a busy machine
		assert.Equal(t, gates[1].addr(), c.Server())
		for range 4 { // both connections
			assert.Equal(t, "content", readText(t, fs, "file"))
		}
		resets := 3 // with the connection that asked
		if tcp {
			resets++ // with the one that asked again; over RDMA, it is not established
		}
		assert.Eventually(t, func() (reset bool) {
			gates[0].set(func() { reset = gates[0].resets == resets })
			return reset
		}, time.Minute, time.Millisecond)
	})
}

// TestServerListExport checks that a server without the export is used only if no other
// has it, and that the error is then its own.
func TestServerListExport(t *testing.T) {
	forTransports(t, func(t *testing.T, tcp bool) {
		has := twoGates(t, tcp)
		lacks := startAnotherServer(t, ServerConfig{Exports: []nfsserver.Export{{
			Path: "/other", FS: mem.New(mem.Options{}), Clients: exports.Everyone(exports.Options{Insecure: true}),
		}}})
		other := lacks.rdma
		if tcp {
			other = lacks.tcp
		}
		c, err := Dial(t.Context(), other+","+has[0].addr(), ClientConfig{TCP: tcp, Export: listExport, Log: silent})
		require.NoError(t, err)
		assert.Equal(t, has[0].addr(), c.Server())
		require.NoError(t, c.Close())

		c, err = Dial(t.Context(), other+","+has[1].addr(), ClientConfig{TCP: tcp, Export: listExport, Log: silent})
		require.NoError(t, err)
		defer c.Close()
		assert.Equal(t, other, c.Server())
		_, err = c.Mount(t.Context(), listExport)
		var refused *nfsclient.MountError
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, mount3.ErrNoEnt, refused.Status)

		_, err = Dial(t.Context(), has[1].addr()+","+has[1].addr()+"0", ClientConfig{TCP: tcp, Log: silent})
		var none *serverlist.Error
		require.ErrorAs(t, err, &none)
		assert.Len(t, none.Errs, 2)
	})
}

// TestServerListTLS checks that each server of a list must have a certificate for its own
// host of the list.
func TestServerListTLS(t *testing.T) {
	checkLeaks(t)
	root := certtest.New(t, "root", time.Now())
	files := rpctls.Files{CA: certtest.Bundle(root)}
	serve := func(change func(*x509.Certificate)) testServer {
		own := root.Issue(change)
		tls, err := rpctls.NewServer(rpctls.ServerConfig{Files: rpctls.Files{Cert: own.Cert, Key: own.Key}, Log: silent})
		require.NoError(t, err)
		return startAnotherServer(t, ServerConfig{TLS: tls, RDMATLS: true, Exports: []nfsserver.Export{{
			Path: listExport, FS: mem.New(mem.Options{}), Clients: exports.Everyone(exports.Options{Insecure: true}),
		}}})
	}
	a := serve(func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = nil, []net.IP{{127, 0, 0, 1}} })
	b := serve(func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = []string{"localhost"}, nil })
	client, err := rpctls.NewClient(rpctls.ClientConfig{Files: files, Host: "unused", Log: silent})
	require.NoError(t, err)
	dial := func(tcp bool, list string) (string, error) {
		c, err := Dial(t.Context(), list, ClientConfig{TCP: tcp, TLS: client, Export: listExport, Log: silent})
		if err != nil {
			return "", err
		}
		defer c.Close()
		_, err = c.Mount(t.Context(), listExport)
		return c.Server(), err
	}
	forTransports(t, func(t *testing.T, tcp bool) {
		at := func(s testServer, host string) string {
			addr := s.rdma
			if tcp {
				addr = s.tcp
			}
			_, port, _ := net.SplitHostPort(addr)
			return net.JoinHostPort(host, port)
		}
		for list, want := range map[string]string{
			at(a, "127.0.0.1") + "," + at(b, "127.0.0.1"): at(a, "127.0.0.1"),
			at(a, "localhost") + "," + at(b, "localhost"): at(b, "localhost"),
		} {
			got, err := dial(tcp, list)
			require.NoError(t, err)
			assert.Equal(t, want, got)
		}
		_, err := dial(tcp, at(a, "localhost")+","+at(b, "127.0.0.1"))
		var none *serverlist.Error
		require.ErrorAs(t, err, &none)
		for _, err := range none.Errs {
			var wrong *rpctls.Error
			assert.ErrorAs(t, err, &wrong)
		}
	})
}

// TestServerListV4 checks that a session of NFS version 4 moves to the host that serves.
func TestServerListV4(t *testing.T) {
	forTransports(t, func(t *testing.T, tcp bool) {
		gates := twoGates(t, tcp)
		s, err := DialV4(t.Context(), gateList(gates), 2, ClientConfig{TCP: tcp, Log: silent})
		require.NoError(t, err)
		defer func() { assert.NoError(t, s.Close(context.WithoutCancel(t.Context()))) }()
		for range 3 {
			_, err := s.Walk(t.Context(), listExport)
			require.NoError(t, err)
			swap(gates)
		}
	})
}
