package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcbind"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// TestPortmap checks that the portmapper reports each program over each
// transport at its actual address.
func TestPortmap(t *testing.T) {
	s := startDaemon(t, "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--portmap", "127.0.0.1:0", t.TempDir()+"=/x")
	at := s.transportAddr(t, "portmap")
	c, err := oncrpc.DialTCP(t.Context(), at, oncrpc.ClientConfig{})
	require.NoError(t, err)
	defer c.Close()
	list, err := rpcbind.DumpRPCBs(t.Context(), c)
	require.NoError(t, err)
	addrs := make(map[string]string)
	for _, netid := range []string{"tcp", "udp", "rdma", "portmap"} { // R8166-9-2
		addrs[netid] = s.transportAddr(t, netid)
	}
	var told []string
	for _, m := range list {
		a, err := rpcbind.ParseUaddr(m.Addr)
		require.NoError(t, err)
		told = append(told, fmt.Sprint(m.Prog, m.Vers, m.Netid))
		if m.Prog == rpcbind.Program {
			assert.Equal(t, addrs["portmap"], a.String())
			continue
		}
		assert.Equal(t, addrs[m.Netid], a.String())
		if m.Netid == "tcp" {
			null, err := oncrpc.DialTCP(t.Context(), a.String(), oncrpc.ClientConfig{})
			require.NoError(t, err)
			x := oncrpc.Exchange{Prog: m.Prog, Vers: m.Vers}
			assert.NoError(t, null.Call(t.Context(), &x), m)
			x.Release()
			require.NoError(t, null.Close())
		}
	}
	assert.ElementsMatch(t, []string{
		"100000 2tcp", "100000 3tcp", "100000 4tcp", "100000 2udp", "100000 3udp", "100000 4udp",
		"100003 3tcp", "100227 3tcp", "100005 3tcp", "100003 3rdma", "100227 3rdma", "100005 3rdma",
		"100021 1tcp", "100021 3tcp", "100021 4tcp", "100024 1tcp", "100021 1udp", "100021 3udp", "100021 4udp", "100024 1udp", // RNLM-6.1.3-1, RNSM-1-3
	}, told)
}

// TestRegisterErrors checks that errors contain a remedy.
func TestRegisterErrors(t *testing.T) {
	none := rpcbind.Host{Socket: filepath.Join(t.TempDir(), "none"), Addr: "127.0.0.1"}
	_, err := registerServices(t.Context(), none, nil, slog.New(slog.DiscardHandler))
	require.ErrorIs(t, err, rpcbind.ErrNoRPCBind)
	assert.Regexp(t, `: start it \(systemctl start rpcbind\), or replace it with --portmap :111$`, err.Error())

	taken := &rpcbind.TakenError{
		Want:   rpcbind.RPCB{Prog: 100003, Vers: 3, Netid: "tcp"},
		Holder: rpcbind.RPCB{Addr: "0.0.0.0.8.1", Owner: "superuser"},
	}
	assert.EqualError(t, registerError(taken), "rpcbind: program 100003 version 3 on tcp is registered already, at 0.0.0.0.8.1 by superuser: "+
		"stop that server (the kernel's: systemctl stop nfs-server), or omit --register and give clients the ports")
	assert.EqualError(t, registerError(errors.New("x")), "--register: x")
}

// TestUnregisterFails checks that the log contains a remedy if unregistering
// fails.
func TestUnregisterFails(t *testing.T) {
	dir := t.TempDir()
	host := rpcbind.Host{Socket: filepath.Join(dir, "s"), Addr: "127.0.0.1"}
	l, err := net.Listen("unix", host.Socket)
	require.NoError(t, err)
	served := make(chan error, 1)
	server := &oncrpc.Server{Handler: new(oncrpc.Mux)}
	go func() { served <- server.Serve(l) }()
	var log bytes.Buffer
	r := &registrar{host: host, log: slog.New(slog.NewTextHandler(&log, nil))}
	require.NoError(t, r.register(t.Context(), []rpcbind.Service{}))
	require.NoError(t, server.Shutdown(t.Context()))
	require.NoError(t, <-served)
	r.unregister()
	assert.Contains(t, log.String(), "remove the registration with rpcinfo -d")
	assert.Contains(t, log.String(), unix.ENOENT.Error())
}

// TestFindableCloses checks that the transports are closed if their ports
// cannot be registered.
func TestFindableCloses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	o := serveOptions{portmap: taken.Addr().String()}
	way := cli.NewEndpoint("tcp", l, new(oncrpc.Server))
	_, _, err = o.registerPorts(t.Context(), []cli.Endpoint{way}, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "in use")
	assert.ErrorIs(t, l.Close(), net.ErrClosed)
}

// A fakeRPCBind is an rpcbind in which a program is registered by another.
type fakeRPCBind struct {
	taken uint32

	mu  sync.Mutex
	set map[rpcbind.RPCB]bool
}

func (f *fakeRPCBind) ServeRPC(_ context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var m rpcbind.RPCB
	switch c.Proc {
	case 1, 2: // SET, UNSET
		m.Decode(&c.Args)
		if m.Prog != f.taken {
			f.set[m] = true
		}
		if c.Proc == 2 {
			delete(f.set, m)
		}
		r.Head = xdr.AppendBool(r.Head, m.Prog != f.taken)
	case 4: // DUMP
		for have := range f.set {
			r.Head = have.AppendTo(xdr.AppendBool(r.Head, true))
		}
		r.Head = rpcbind.RPCB{Prog: f.taken, Vers: 1, Netid: "tcp", Addr: "0.0.0.0.8.1", Owner: "superuser"}.AppendTo(xdr.AppendBool(r.Head, true))
		r.Head = xdr.AppendBool(r.Head, false)
	}
	return nil
}

// TestRegisterLocks: RNSM-LINUX-3: if another lock manager or status monitor is registered on the host, the rest is registered
// without ours, and the log says so.
func TestRegisterLocks(t *testing.T) {
	for _, taken := range []uint32{100021, 100024, 1} {
		host := rpcbind.Host{Socket: filepath.Join(t.TempDir(), "s"), Addr: "127.0.0.1"}
		l, err := net.Listen("unix", host.Socket)
		require.NoError(t, err)
		f := &fakeRPCBind{taken: taken, set: make(map[rpcbind.RPCB]bool)}
		mux := new(oncrpc.Mux)
		mux.Register(rpcbind.Program, rpcbind.RPCBVers4, f)
		server := &oncrpc.Server{Handler: mux}
		go server.Serve(l)
		at := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2049}
		list := rpcServices([]cli.Endpoint{{Name: "tcp", Addr: at}, {Name: "udp", Addr: &net.UDPAddr{IP: at.IP, Port: at.Port}}})
		var log bytes.Buffer
		_, err = registerServices(t.Context(), host, list, slog.New(slog.NewTextHandler(&log, nil)))
		require.NoError(t, err)
		expected := map[uint32]int{100003: 1, 100005: 1, 100227: 1, 100021: 6, 100024: 2}
		if taken != 1 {
			delete(expected, 100021)
			delete(expected, 100024)
			assert.Contains(t, log.String(), "nolock")
		} else {
			assert.Empty(t, log.String())
		}
		got := make(map[uint32]int)
		for m := range f.set {
			got[m.Prog]++
		}
		assert.Equal(t, expected, got)
		require.NoError(t, server.Shutdown(t.Context()))
	}
}

// TestRegistrar checks that the ports are registered when rpcbind appears, again when it has lost
// them or a transport listens later, and that an error is logged once.
func TestRegistrar(t *testing.T) {
	host := rpcbind.Host{Socket: filepath.Join(t.TempDir(), "s"), Addr: "127.0.0.1"}
	list := rpcServices([]cli.Endpoint{
		{Name: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2049}},
		{Name: "rdma", Addr: new(lateTransport)},
	})
	var log bytes.Buffer
	r := &registrar{host: host, services: func() []rpcbind.Service { return list }, log: slog.New(slog.NewTextHandler(&log, nil))}
	r.refresh(t.Context())
	assert.Empty(t, log.String(), "no rpcbind")
	r.unregister()

	f := &fakeRPCBind{taken: 1, set: make(map[rpcbind.RPCB]bool)}
	start := func() (stop func()) {
		l, err := net.Listen("unix", host.Socket)
		require.NoError(t, err)
		mux := new(oncrpc.Mux)
		mux.Register(rpcbind.Program, rpcbind.RPCBVers4, f)
		server := &oncrpc.Server{Handler: mux}
		go server.Serve(l)
		return func() { require.NoError(t, server.Shutdown(t.Context())) }
	}
	count := func() int {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.set)
	}
	stop := start()
	r.refresh(t.Context())
	n := count()
	assert.Equal(t, len(list), n)
	log.Reset()
	r.refresh(t.Context())
	assert.Empty(t, log.String(), "rpcbind has them")

	restart := func(taken uint32) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.taken = taken
		clear(f.set)
	}
	restart(1)
	r.refresh(t.Context())
	assert.Equal(t, n, count(), "after a restart of rpcbind")
	stop()
	log.Reset()
	r.refresh(t.Context())
	r.refresh(t.Context())
	assert.Equal(t, 1, strings.Count(log.String(), "rpcbind does not respond any more"), log.String())
	stop = start()
	defer func() { stop() }()
	list = append(list, rpcServices([]cli.Endpoint{{Name: "rdma", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 20049}}})...)
	r.refresh(t.Context())
	assert.Equal(t, n+3, count(), "a transport listens later")

	restart(100003)
	log.Reset()
	r.refresh(t.Context())
	r.refresh(t.Context())
	assert.Equal(t, 1, strings.Count(log.String(), "NFSv3 clients cannot find the ports"), log.String())
	assert.Contains(t, log.String(), "systemctl stop nfs-server")
	restart(1)
	r.refresh(t.Context())
	assert.Equal(t, n+3, count())
	r.unregister()
	assert.Zero(t, count())

	for _, word := range []string{"on", "auto"} {
		o := serveOptions{register: cli.NewChoice(word, word)}
		o.daemon.endpoints = []cli.Endpoint{{Name: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2049}}}
		undo, err := o.startRegistrar(t.Context(), host, r.log)
		require.NoError(t, err)
		assert.NotZero(t, count(), word)
		undo()
		assert.Zero(t, count(), "at the daemon's exit")
	}
}

// TestRegisterAuto checks that a daemon without an rpcbind serves, without NFSv3 as well.
func TestRegisterAuto(t *testing.T) {
	for _, versions := range []string{"3,4.2", "4.2"} {
		o := serveOptions{register: cli.NewChoice("auto", "auto"), versions: strings.Split(versions, ",")}
		require.NoError(t, o.parseVersions())
		assert.Equal(t, versions != "4.2", o.registers())
	}
	status, _, stderr := runCommand(t, "serve", "--register=auto", "--vers", "4.2", "--state", t.TempDir(), "--listen", "192.0.2.1:1", "mem:=/x")
	assert.Equal(t, cli.ExitError, status, "accepted, but for the address: %s", stderr)
	assert.Contains(t, stderr, "this host has no such address")
}
