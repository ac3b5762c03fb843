package rpctls

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/certtest"
	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	testProg = 0x20000001 // from the range for local use
	procEcho = 1
	procWait = 2 // until the service opens its gate
	procBack = 3 // makes a call to the client
)

// A service is a program that remembers its callers.
type service struct {
	gate    chan struct{}
	entered chan struct{}

	mu    sync.Mutex
	peers []*oncrpc.Peer
	creds []rpcmsg.Cred
	lends []bool // Reply.Mappable
}

func (s *service) ServeRPC(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	s.mu.Lock()
	s.peers, s.creds, s.lends = append(s.peers, c.Peer), append(s.creds, c.Cred), append(s.lends, r.Mappable)
	s.mu.Unlock()
	switch c.Proc {
	case procWait:
		s.entered <- struct{}{}
		<-s.gate
	case procBack:
		r.StepAside()
		x := &oncrpc.Exchange{Prog: testProg, Vers: 1}
		if err := c.Peer.Reverse.Call(ctx, x); err != nil {
			return err
		}
		x.Release()
	}
	r.Head = xdr.AppendOpaque(r.Head, c.Args.Opaque(1<<20))
	return c.Args.Done()
}

func (s *service) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.peers)
}

// A daemon is an oncrpc.Server with a Server as its Guard.
type daemon struct {
	*rig
	service *service
	rpc     *oncrpc.Server
}

func newDaemon(t *testing.T, cfg ServerConfig) *daemon {
	t.Helper()
	d := &daemon{rig: newRig(t, cfg), service: &service{gate: make(chan struct{}), entered: make(chan struct{}, 10)}}
	mux := &oncrpc.Mux{Log: slog.New(slog.DiscardHandler)}
	mux.Register(testProg, 1, d.service)
	d.rpc = &oncrpc.Server{Handler: mux, Guard: d.server, Log: d.log.log()}
	served := make(chan error, 1)
	go func() { served <- d.rpc.Serve(d.l) }()
	t.Cleanup(func() {
		assert.NoError(t, d.rpc.Shutdown(context.Background()))
		assert.NoError(t, <-served)
	})
	return d
}

// connect returns a connection in clear.
func (d *daemon) connect() net.Conn {
	d.t.Helper()
	nc, err := net.Dial("tcp", d.l.Addr().String())
	require.NoError(d.t, err)
	d.t.Cleanup(func() { nc.Close() })
	require.NoError(d.t, nc.SetDeadline(time.Now().Add(time.Minute)))
	return nc
}

// caller returns a Caller over a connection, until the test's end.
func caller(t *testing.T, nc net.Conn) *oncrpc.TCPClient {
	c := oncrpc.NewTCPClient(nc, oncrpc.ClientConfig{Machine: "test"})
	t.Cleanup(func() { c.Close() })
	return c
}

func exchange(proc uint32, data []byte) *oncrpc.Exchange {
	return &oncrpc.Exchange{
		Prog: testProg, Vers: 1, Proc: proc, Args: xdr.AppendOpaque(nil, data), MaxResults: 4 + len(data) + 3,
		Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: 1001, GID: 100},
	}
}

// echo makes a call, and checks its result.
func echo(t *testing.T, c oncrpc.Caller, data []byte) {
	t.Helper()
	x := exchange(procEcho, data)
	require.NoError(t, c.Call(t.Context(), x))
	assert.True(t, bytes.Equal(data, x.Results.Opaque(len(data))))
	x.Release()
}

func record(msg []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, lastFrag|uint32(len(msg))), msg...)
}

func readRecord(t *testing.T, nc net.Conn) []byte {
	t.Helper()
	mark := make([]byte, markLen)
	_, err := io.ReadFull(nc, mark)
	require.NoError(t, err)
	msg := make([]byte, binary.BigEndian.Uint32(mark)&^lastFrag)
	_, err = io.ReadFull(nc, msg)
	require.NoError(t, err)
	return msg
}

// TestCalls checks calls inside of TLS and in clear on one port (R9289-4.1-1), after
// calls in clear on the same connection (R9289-5.1.1-1); the certificate of a host is
// not its user (R9289-4.2-5).
func TestCalls(t *testing.T) {
	root := newAuthority(t, "root")
	host := root.Issue(nil)
	d := newDaemon(t, ServerConfig{Files: filesOf(root.Issue(nil), root)})
	c := newTestClient(t, ClientConfig{Files: filesOf(host, root), Mutual: true})

	echo(t, caller(t, d.connect()), []byte("clear"))

	nc := d.connect()
	_, err := nc.Write(record(append(AppendProbe(nil, 7, testProg, 1)[:procAt], append([]byte{0, 0, 0, procEcho}, make([]byte, 20)...)...)))
	require.NoError(t, err)
	readRecord(t, nc)
	conn, err := c.Secure(t.Context(), nc, testProg, 1)
	require.NoError(t, err)
	inside := caller(t, conn)
	for _, n := range []int{1, 100, 1 << 20} {
		echo(t, inside, random(n))
	}
	d.service.mu.Lock()
	defer d.service.mu.Unlock()
	require.Len(t, d.service.peers, 5)
	assert.Equal(t, []bool{true, true, false, false, false}, d.service.lends, "this process reads what it encrypts")
	before, after := d.service.peers[1], d.service.peers[2]
	assert.Nil(t, before.Security)
	assert.Equal(t, "mtls", after.Security.String())
	assert.NotSame(t, before, after, "what programs remember about the peer in clear")
	assert.Equal(t, before.Addr, after.Addr)
	assert.Equal(t, rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: 1001, GID: 100}, withoutGIDs(d.service.creds[2]))
	stats := d.rpc.Connections()
	assert.Nil(t, stats[0].Security)
	assert.Equal(t, after.Security, stats[1].Security)
	assert.Contains(t, d.log.String(), "security=none", "R9289-6.1-1: connections in clear are in the log too")
}

func withoutGIDs(c rpcmsg.Cred) rpcmsg.Cred {
	c.GIDs = nil
	return c
}

// TestProbeWrong checks the answers to probes that are none, on connections that go on
// (R9289-4.1-10, R9289-4.1-11, R9289-4.1-12).
func TestProbeWrong(t *testing.T) {
	root := newAuthority(t, "root")
	d := newDaemon(t, ServerConfig{Files: filesOf(root.Issue(nil))})
	c := newTestClient(t, ClientConfig{Files: Files{CA: certtest.Bundle(root)}})
	probe := func(proc, verifier uint32) []byte {
		b := AppendProbe(nil, testXID, testProg, 1)
		binary.BigEndian.PutUint32(b[procAt:], proc)
		binary.BigEndian.PutUint32(b[flavorAt+8:], verifier)
		return record(b)
	}
	clear := d.connect()
	for _, tt := range []struct {
		name           string
		proc, verifier uint32
		stat           rpcmsg.AuthError
	}{
		{"R9289-4.1-10 procedure 1", 1, 0, rpcmsg.AuthBadCred},
		{"R9289-4.1-10 procedure 4", 4, 0, rpcmsg.AuthBadCred},
		{"R9289-4.1-12 a verifier", 0, 1, rpcmsg.AuthBadVerf},
	} {
		_, err := clear.Write(probe(tt.proc, tt.verifier))
		require.NoError(t, err)
		assert.Equal(t, rpcmsg.AppendAuthError(nil, testXID, tt.stat), readRecord(t, clear), tt.name)
	}
	conn, err := c.Secure(t.Context(), clear, testProg, 1)
	require.NoError(t, err)
	for _, proc := range []uint32{0, 1} {
		_, err = conn.Write(probe(proc, 0))
		require.NoError(t, err)
		assert.Equal(t, rpcmsg.AppendAuthError(nil, testXID, rpcmsg.AuthBadCred), readRecord(t, conn), "R9289-4.1-11 inside of TLS")
	}
	echo(t, caller(t, conn), []byte("the session goes on"))
	assert.NotZero(t, d.server.Stats().Failed["broken"], "a refusal has a count")
	assert.Equal(t, 1, d.service.calls())
}

// TestProbeAnswers checks the answer on the wire, also if the server does not have the
// program (R9289-4.1-4, R9289-4.1-5), and that the handshake is on the same connection
// (R9289-4.1-6).
func TestProbeAnswers(t *testing.T) {
	root := newAuthority(t, "root")
	d := newDaemon(t, ServerConfig{Files: filesOf(root.Issue(nil))})
	nc := d.connect()
	_, err := nc.Write(record(AppendProbe(nil, testXID, testProg, 1)))
	require.NoError(t, err)
	assert.Equal(t, wiretest.Hex(t, "testdata/answer.hex"), readRecord(t, nc))
	c := newTestClient(t, ClientConfig{Files: Files{CA: certtest.Bundle(root)}})
	for _, number := range [][2]uint32{{testProg, 9}, {testProg + 1, 1}} {
		conn, err := c.Secure(t.Context(), d.connect(), number[0], number[1])
		require.NoError(t, err, number)
		echo(t, caller(t, conn), []byte("inside"))
	}
}

// TestClearBehindProbe checks that bytes in clear behind the probe are neither answered
// nor executed, and end the connection (R9289-5.1.1-2, R9289-5.1.1-3).
func TestClearBehindProbe(t *testing.T) {
	root := newAuthority(t, "root")
	d := newDaemon(t, ServerConfig{Files: filesOf(root.Issue(nil))})
	call := AppendProbe(nil, 8, testProg, 1)
	binary.BigEndian.PutUint32(call[procAt:], procEcho)
	binary.BigEndian.PutUint32(call[flavorAt:], rpcmsg.AuthNone)
	call = record(append(call, 0, 0, 0, 0))
	probe := record(AppendProbe(nil, testXID, testProg, 1))
	t.Run("with it", func(t *testing.T) {
		nc := d.connect()
		_, err := nc.Write(append(bytes.Clone(probe), call...))
		require.NoError(t, err)
		rest, _ := io.ReadAll(nc)
		assert.Empty(t, rest)
		assert.EqualValues(t, 1, d.server.Stats().Failed["injected"])
	})
	t.Run("after the answer", func(t *testing.T) {
		nc := d.connect()
		_, err := nc.Write(probe)
		require.NoError(t, err)
		readRecord(t, nc)
		_, err = nc.Write(call)
		require.NoError(t, err)
		rest, _ := io.ReadAll(nc)
		assert.Empty(t, rest)
		assert.EqualValues(t, 2, d.server.Stats().Failed["injected"])
	})
	assert.Zero(t, d.service.calls())
	assert.Contains(t, d.log.String(), "bytes in clear are behind the call")
}

// TestProbeAmidCalls checks that a probe while a call is under way ends the connection:
// the reply would come into the handshake.
func TestProbeAmidCalls(t *testing.T) {
	root := newAuthority(t, "root")
	d := newDaemon(t, ServerConfig{Files: filesOf(root.Issue(nil))})
	nc := d.connect()
	call := AppendProbe(nil, 8, testProg, 1)
	binary.BigEndian.PutUint32(call[procAt:], procWait)
	binary.BigEndian.PutUint32(call[flavorAt:], rpcmsg.AuthNone)
	_, err := nc.Write(record(append(call, 0, 0, 0, 0)))
	require.NoError(t, err)
	<-d.service.entered
	_, err = nc.Write(record(AppendProbe(nil, testXID, testProg, 1)))
	require.NoError(t, err)
	rest, _ := io.ReadAll(nc)
	assert.Empty(t, rest)
	close(d.service.gate)
	assert.Contains(t, d.log.String(), "other calls are under way")
	assert.EqualValues(t, 1, d.server.Stats().Failed["broken"])
}

// TestAudit checks that clients cannot fill the log with lines about connections, and
// that all are counted.
func TestAudit(t *testing.T) {
	root := newAuthority(t, "root")
	d := newDaemon(t, ServerConfig{Files: filesOf(root.Issue(nil))})
	nc := d.connect()
	const many = 500
	for range many {
		d.server.InClear(nc)
		d.server.Refused(nc, oncrpc.ErrInjected)
	}
	st := d.server.Stats()
	assert.EqualValues(t, many, st.Clear)
	assert.EqualValues(t, many, st.Failed["injected"])
	assert.LessOrEqual(t, strings.Count(d.log.String(), "\n"), 300)
	echo(t, caller(t, d.connect()), []byte("in clear"))
	assert.EqualValues(t, many+1, d.server.Stats().Clear)
}

// TestReverse checks calls to a client inside of TLS (R9289-5.1.1-6).
func TestReverse(t *testing.T) {
	root := newAuthority(t, "root")
	d := newDaemon(t, ServerConfig{Files: filesOf(root.Issue(nil))})
	conn, err := newTestClient(t, ClientConfig{Files: Files{CA: certtest.Bundle(root)}}).Secure(t.Context(), d.connect(), testProg, 1)
	require.NoError(t, err)
	call := AppendProbe(nil, 8, testProg, 1)
	binary.BigEndian.PutUint32(call[procAt:], procBack)
	binary.BigEndian.PutUint32(call[flavorAt:], rpcmsg.AuthNone)
	_, err = conn.Write(record(append(call, 0, 0, 0, 0)))
	require.NoError(t, err)
	back := readRecord(t, conn)
	assert.EqualValues(t, rpcmsg.MsgCall, word(back, 4))
	_, err = conn.Write(record(rpcmsg.AppendAccepted(nil, word(back, 0), rpcmsg.Success)))
	require.NoError(t, err)
	assert.Equal(t, rpcmsg.AppendAccepted(nil, 8, rpcmsg.Success), readRecord(t, conn)[:rpcmsg.AcceptedLen])
}

// A relay stands between a client and the daemon. It keeps the bytes of the client, and
// gives those of the server to change, one read at a time.
type relay struct {
	l      net.Listener
	change func(number int, b []byte) []byte
	mu     sync.Mutex
	seen   bytes.Buffer
	conns  int
	wg     sync.WaitGroup
}

func (d *daemon) relay(change func(number int, b []byte) []byte) *relay {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(d.t, err)
	r := &relay{l: l, change: change}
	r.wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", d.l.Addr().String())
			if err != nil {
				client.Close()
				return
			}
			r.conns++
			r.wg.Go(func() { r.pass(server, client, func(_ int, b []byte) []byte { return r.see(b) }) })
			r.wg.Go(func() { r.pass(client, server, r.change) })
		}
	})
	d.t.Cleanup(func() {
		l.Close()
		r.wg.Wait()
	})
	return r
}

func (r *relay) see(b []byte) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen.Write(b)
	return b
}

func (r *relay) pass(to, from net.Conn, change func(int, []byte) []byte) {
	defer to.Close()
	defer from.Close()
	b := make([]byte, 64<<10)
	for number := 0; ; number++ {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		if out := change(number, b[:n]); len(out) > 0 {
			if _, err := to.Write(out); err != nil {
				return
			}
		}
	}
}

func (r *relay) connect(t *testing.T) net.Conn {
	nc, err := net.Dial("tcp", r.l.Addr().String())
	require.NoError(t, err)
	return nc
}

// clear returns what clients have sent that is not TLS, less one probe for each
// connection.
func (r *relay) clear(t *testing.T) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := bytes.Clone(r.seen.Bytes())
	probe := record(AppendProbe(nil, 0, testProg, 1))
	var rest []byte
	for len(b) > 0 {
		switch {
		case len(b) >= len(probe) && bytes.Equal(b[:4], probe[:4]) && bytes.Equal(b[8:len(probe)], probe[8:]):
			b = b[len(probe):]
		case len(b) > recordHeader && b[0] >= 20 && b[0] <= 23 && b[1] == 3:
			n := recordHeader + int(binary.BigEndian.Uint16(b[3:]))
			require.GreaterOrEqual(t, len(b), n)
			b = b[n:]
		default:
			return append(rest, b...)
		}
	}
	return rest
}

// TestNothingInClear checks that after the probe a client and a server send nothing but
// TLS, and no tickets (R9289-5.1.1-4, R9289-6.1.2-1, R9289-6-1, R9289-5.1.1-8).
func TestNothingInClear(t *testing.T) {
	root := newAuthority(t, "root")
	d := newDaemon(t, ServerConfig{Files: filesOf(root.Issue(nil))})
	var answers bytes.Buffer
	r := d.relay(func(number int, b []byte) []byte {
		if number > 0 {
			answers.Write(b)
		}
		return b
	})
	secret := bytes.Repeat([]byte("secret"), 1000)
	conn, err := newTestClient(t, ClientConfig{Files: Files{CA: certtest.Bundle(root)}}).Secure(t.Context(), r.connect(t), testProg, 1)
	require.NoError(t, err)
	c := caller(t, conn)
	for range 5 {
		echo(t, c, secret)
	}
	c.Close()
	assert.Empty(t, r.clear(t))
	require.NoError(t, r.l.Close())
	r.wg.Wait()
	assert.NotContains(t, r.seen.String(), "secret")
	assert.NotContains(t, answers.String(), "secret")

	tickets := &cache{}
	nc := d.connect()
	_, err = nc.Write(record(AppendProbe(nil, 1, testProg, 1)))
	require.NoError(t, err)
	readRecord(t, nc)
	other := tls.Client(nc, &tls.Config{InsecureSkipVerify: true, ClientSessionCache: tickets, NextProtos: []string{"sunrpc"}, Time: testNow})
	echo(t, caller(t, other), []byte("x"))
	assert.Zero(t, tickets.put)
}

type cache struct{ put int }

func (*cache) Get(string) (*tls.ClientSessionState, bool) { return nil, false }
func (c *cache) Put(_ string, s *tls.ClientSessionState)  { c.put++ }

// TestDowngrade checks that a client whose probe is answered away, or behind whose
// answer something comes, makes no call in clear, on any connection (R9289-6.1.1-1,
// R9289-6.1.1-2, R9289-4.1-13, R9289-4.1-8).
func TestDowngrade(t *testing.T) {
	root := newAuthority(t, "root")
	d := newDaemon(t, ServerConfig{Files: filesOf(root.Issue(nil))})
	c := newTestClient(t, ClientConfig{Files: Files{CA: certtest.Bundle(root)}})
	denial := func(stat rpcmsg.AuthError) func(int, []byte) []byte {
		return func(_ int, b []byte) []byte {
			return record(rpcmsg.AppendAuthError(nil, word(b, markLen), stat))
		}
	}
	for _, tt := range []struct {
		name, reason, words string
		change              func(number int, b []byte) []byte
	}{
		{"denied with AUTH_BADCRED", "no_tls", "has no TLS, or someone on the way pretends that", denial(rpcmsg.AuthBadCred)},
		{"denied with AUTH_REJECTEDCRED", "no_tls", "AUTH_REJECTEDCRED", denial(rpcmsg.AuthRejectedCred)},
		{"the token is taken away", "no_tls", "lacks STARTTLS", func(_ int, b []byte) []byte {
			return record(rpcmsg.AppendAccepted(nil, word(b, markLen), rpcmsg.Success))
		}},
		{"a plain reply behind the answer", "injected", "28 bytes in clear came behind", func(_ int, b []byte) []byte {
			return append(bytes.Clone(b), record(rpcmsg.AppendAccepted(nil, 1, rpcmsg.Success))...)
		}},
		{"a plain reply in place of the handshake", "injected", "in clear came where TLS must begin", func(number int, b []byte) []byte {
			if number == 0 {
				return b
			}
			return record(rpcmsg.AppendAccepted(nil, 1, rpcmsg.Success))
		}},
		{"no RPC", "no_tls", "does not answer as RPC does", func(int, []byte) []byte { return []byte("HTTP/1.1 400 Bad Request\r\n\r\n") }},
		{"an alert", "refused", "refuses the certificate", func(number int, b []byte) []byte {
			if number == 0 {
				return b
			}
			return []byte{21, 3, 3, 0, 2, 2, byte(alertAccessDenied)}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := d.relay(tt.change)
			for range 50 {
				_, err := c.Secure(t.Context(), r.connect(t), testProg, 1)
				require.Error(t, err)
				require.Equal(t, tt.reason, wordOf(err), err)
				require.ErrorContains(t, err, tt.words)
			}
			assert.Empty(t, r.clear(t))
		})
	}
	assert.Zero(t, d.service.calls())
}

// TestServerWithoutTLS checks the words if the server has no certificate (R9289-4.1-8).
func TestServerWithoutTLS(t *testing.T) {
	root := newAuthority(t, "root")
	d := newDaemon(t, ServerConfig{Files: filesOf(root.Issue(nil))})
	mux := new(oncrpc.Mux)
	mux.Register(testProg, 1, d.service)
	plain := &oncrpc.Server{Handler: mux}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = plain.Serve(l) }()
	defer plain.Shutdown(context.Background())
	nc, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	_, err = newTestClient(t, ClientConfig{Files: Files{CA: certtest.Bundle(root)}}).Secure(t.Context(), nc, testProg, 1)
	assert.ErrorContains(t, err, "AUTH_BADCRED): give it a certificate (nfsrdmad serve --tls-cert), or mount with xprtsec=none")
}

// TestStalls checks that handshakes that stand still keep nobody out, and end.
func TestStalls(t *testing.T) {
	root := newAuthority(t, "root")
	d := newDaemon(t, ServerConfig{Files: filesOf(root.Issue(nil))})
	d.server.places, d.server.patience = 8, time.Hour
	begun := uint64(0)
	stall := func(d *daemon) net.Conn {
		nc := d.connect()
		_, err := nc.Write(record(AppendProbe(nil, testXID, testProg, 1)))
		require.NoError(t, err)
		readRecord(t, nc)
		begun++ // a handshake counts from here on, which is a moment after the answer
		require.Eventually(t, func() bool {
			d.server.mu.Lock()
			defer d.server.mu.Unlock()
			return d.server.begun == begun
		}, 10*time.Second, time.Millisecond)
		return nc
	}
	var stalled []net.Conn
	for range 40 {
		stalled = append(stalled, stall(d))
	}
	c := newTestClient(t, ClientConfig{Files: Files{CA: certtest.Bundle(root)}})
	conn, err := c.Secure(t.Context(), d.connect(), testProg, 1)
	require.NoError(t, err)
	echo(t, caller(t, conn), []byte("x"))
	st := d.server.Stats()
	assert.LessOrEqual(t, st.Handshakes, 8)
	for _, nc := range stalled[:30] { // they made room for the others
		_, err := nc.Read(make([]byte, 1))
		assert.Error(t, err)
	}
	assert.Contains(t, d.log.String(), "stood still while others began")

	hasty := newDaemon(t, ServerConfig{Files: filesOf(root.Issue(nil))})
	hasty.server.patience = 20 * time.Millisecond
	begun = 0
	_, err = stall(hasty).Read(make([]byte, 1))
	assert.Error(t, err)
	require.Eventually(t, func() bool { // the server tells what it has done
		return hasty.server.Stats().Failed["stalled"] == 1 && strings.Contains(hasty.log.String(), "took longer than")
	}, 10*time.Second, time.Millisecond)
	for _, nc := range stalled {
		nc.Close()
	}
}

// TestClientPatience checks that a server that does not answer holds no client up for
// ever, and that a client may give up.
func TestClientPatience(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	root := newAuthority(t, "root")
	c := newTestClient(t, ClientConfig{Files: Files{CA: certtest.Bundle(root)}})
	for _, below := range []bool{false, true} {
		nc, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		gaveUp := errors.New("gave up")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, gaveUp)
		defer cancel()
		if below {
			_, err = c.SecureMPA(ctx, nc)
		} else {
			_, err = c.Secure(ctx, nc, testProg, 1)
		}
		assert.ErrorIs(t, err, gaveUp)
	}
}

// TestCancelledCall checks that a call that is given up while it is written takes no
// other with it.
func TestCancelledCall(t *testing.T) {
	root := newAuthority(t, "root")
	d := newDaemon(t, ServerConfig{Files: filesOf(root.Issue(nil))})
	started := make(chan struct{}, 1000)
	r := d.relay(func(_ int, b []byte) []byte { return b })
	held := &heldConn{Conn: r.connect(t), started: started}
	conn, err := newTestClient(t, ClientConfig{Files: Files{CA: certtest.Bundle(root)}}).Secure(t.Context(), held, testProg, 1)
	require.NoError(t, err)
	c := caller(t, conn)
	held.hold(true)
	ctx, cancel := context.WithCancel(t.Context())
	given := make(chan error, 1)
	go func() { given <- c.Call(ctx, exchange(procEcho, random(1<<19))) }()
	<-started
	cancel()
	assert.ErrorIs(t, <-given, context.Canceled)
	held.hold(false)
	echo(t, c, random(1<<19))
}

// A heldConn takes no bytes while it is held, until a deadline.
type heldConn struct {
	net.Conn
	started chan struct{}

	mu       sync.Mutex
	held     bool
	deadline time.Time
	changed  chan struct{}
}

func (h *heldConn) hold(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = on
	h.wakeLocked()
}

func (h *heldConn) wakeLocked() {
	if h.changed != nil {
		close(h.changed)
	}
	h.changed = make(chan struct{})
}

func (h *heldConn) SetWriteDeadline(t time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deadline = t
	h.wakeLocked()
	return nil
}

func (h *heldConn) Write(p []byte) (int, error) {
	for {
		h.mu.Lock()
		held, late, changed := h.held, !h.deadline.IsZero() && h.deadline.Before(time.Now()), h.changed
		h.mu.Unlock()
		switch {
		case late:
			return 0, errTimeout{}
		case !held:
			return h.Conn.Write(p)
		}
		h.started <- struct{}{}
		<-changed
	}
}

type errTimeout struct{}

func (errTimeout) Error() string   { return "timeout" }
func (errTimeout) Timeout() bool   { return true }
func (errTimeout) Temporary() bool { return true }
func (errTimeout) Is(err error) bool {
	return err == os.ErrDeadlineExceeded
}
