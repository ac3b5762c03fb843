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
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	testProg = 0x20000001 // from the range for local use
	procEcho = 1
	procWait = 2 // until the service opens its gate
	procBack = 3 // makes a call to the client
)

// A recordingProgram is a program that remembers its callers.
type recordingProgram struct {
	gate    chan struct{}
	entered chan struct{}

	mu    sync.Mutex
	peers []*oncrpc.Peer
	creds []rpcmsg.Cred
	lends []bool // Reply.Mappable
}

func (s *recordingProgram) ServeRPC(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
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

func (s *recordingProgram) callCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.peers)
}

// A testDaemon is an oncrpc.Server with a Server as its Guard.
type testDaemon struct {
	*testServer
	service *recordingProgram
	rpc     *oncrpc.Server
}

func newDaemon(t *testing.T, cfg ServerConfig) *testDaemon {
	t.Helper()
	d := &testDaemon{testServer: newRig(t, cfg), service: &recordingProgram{gate: make(chan struct{}), entered: make(chan struct{}, 10)}}
	mux := &oncrpc.Mux{Log: slog.New(slog.DiscardHandler)}
	mux.Register(testProg, 1, d.service)
	d.rpc = &oncrpc.Server{Handler: mux, Guard: d.server, Log: d.log.newLogger()}
	served := make(chan error, 1)
	go func() { served <- d.rpc.Serve(d.l) }()
	t.Cleanup(func() {
		assert.NoError(t, d.rpc.Shutdown(context.Background()))
		assert.NoError(t, <-served)
	})
	return d
}

// dialPlain returns an unencrypted connection.
func (d *testDaemon) dialPlain() net.Conn {
	d.t.Helper()
	nc, err := net.Dial("tcp", d.l.Addr().String())
	require.NoError(d.t, err)
	d.t.Cleanup(func() { nc.Close() })
	require.NoError(d.t, nc.SetDeadline(time.Now().Add(time.Minute)))
	return nc
}

// newCaller returns a Caller over a connection, until the test's end.
func newCaller(t *testing.T, nc net.Conn) *oncrpc.TCPClient {
	c := oncrpc.NewTCPClient(nc, oncrpc.ClientConfig{Machine: "test"})
	t.Cleanup(func() { c.Close() })
	return c
}

func newExchange(proc uint32, data []byte) *oncrpc.Exchange {
	return &oncrpc.Exchange{
		Prog: testProg, Vers: 1, Proc: proc, Args: xdr.AppendOpaque(nil, data), MaxResults: 4 + len(data) + 3,
		Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: 1001, GID: 100},
	}
}

// callEcho makes a call, and checks its result.
func callEcho(t *testing.T, c oncrpc.Caller, data []byte) {
	t.Helper()
	x := newExchange(procEcho, data)
	require.NoError(t, c.Call(t.Context(), x))
	assert.True(t, bytes.Equal(data, x.Results.Opaque(len(data))))
	x.Release()
}

func newRecord(msg []byte) []byte {
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

// TestCalls checks TLS and unencrypted calls on one port (R9289-4.1-1), after unencrypted
// calls on the same connection (R9289-5.1.1-1); a host's certificate is not its user
// (R9289-4.2-5).
func TestCalls(t *testing.T) {
	root := newAuthority(t, "root")
	host := root.Issue(nil)
	d := newDaemon(t, ServerConfig{Files: filesOf(root.Issue(nil), root)})
	c := newTestClient(t, ClientConfig{Files: filesOf(host, root), Mutual: true})

	callEcho(t, newCaller(t, d.dialPlain()), []byte("clear"))

	nc := d.dialPlain()
	_, err := nc.Write(newRecord(append(AppendProbe(nil, 7, testProg, 1)[:procAt], append([]byte{0, 0, 0, procEcho}, make([]byte, 20)...)...)))
	require.NoError(t, err)
	readRecord(t, nc)
	conn, err := c.Secure(t.Context(), nc, testProg, 1)
	require.NoError(t, err)
	inside := newCaller(t, conn)
	for _, n := range []int{1, 100, 1 << 20} {
		callEcho(t, inside, randomBytes(n))
	}
	d.service.mu.Lock()
	defer d.service.mu.Unlock()
	require.Len(t, d.service.peers, 5)
	assert.Equal(t, []bool{true, true, false, false, false}, d.service.lends, "this process reads what it encrypts")
	before, after := d.service.peers[1], d.service.peers[2]
	assert.Nil(t, before.Security)
	assert.Equal(t, "mtls", after.Security.String())
	assert.NotSame(t, before, after, "what programs stored about the unencrypted peer")
	assert.Equal(t, before.Addr, after.Addr)
	assert.Equal(t, rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: 1001, GID: 100}, withoutGIDs(d.service.creds[2]))
	stats := d.rpc.Connections()
	assert.Nil(t, stats[0].Security)
	assert.Equal(t, after.Security, stats[1].Security)
	assert.Contains(t, d.log.String(), "security=none", "R9289-6.1-1: unencrypted connections are in the log too")
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
		return newRecord(b)
	}
	clear := d.dialPlain()
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
	callEcho(t, newCaller(t, conn), []byte("the session goes on"))
	assert.NotZero(t, d.server.Stats().Failed["broken"], "a refusal has a count")
	assert.Equal(t, 1, d.service.callCount())
}

// TestProbeAnswers checks the answer on the wire, also if the server does not have the
// program (R9289-4.1-4, R9289-4.1-5), and that the handshake is on the same connection
// (R9289-4.1-6).
func TestProbeAnswers(t *testing.T) {
	root := newAuthority(t, "root")
	d := newDaemon(t, ServerConfig{Files: filesOf(root.Issue(nil))})
	nc := d.dialPlain()
	_, err := nc.Write(newRecord(AppendProbe(nil, testXID, testProg, 1)))
	require.NoError(t, err)
	assert.Equal(t, wiretest.Hex(t, "testdata/answer.hex"), readRecord(t, nc))
	c := newTestClient(t, ClientConfig{Files: Files{CA: certtest.Bundle(root)}})
	for _, number := range [][2]uint32{{testProg, 9}, {testProg + 1, 1}} {
		conn, err := c.Secure(t.Context(), d.dialPlain(), number[0], number[1])
		require.NoError(t, err, number)
		callEcho(t, newCaller(t, conn), []byte("inside"))
	}
}

// TestClearBehindProbe checks that unencrypted bytes after the probe are neither answered
// nor executed, and end the connection (R9289-5.1.1-2, R9289-5.1.1-3).
func TestClearBehindProbe(t *testing.T) {
	root := newAuthority(t, "root")
	d := newDaemon(t, ServerConfig{Files: filesOf(root.Issue(nil))})
	call := AppendProbe(nil, 8, testProg, 1)
	binary.BigEndian.PutUint32(call[procAt:], procEcho)
	binary.BigEndian.PutUint32(call[flavorAt:], rpcmsg.AuthNone)
	call = newRecord(append(call, 0, 0, 0, 0))
	probe := newRecord(AppendProbe(nil, testXID, testProg, 1))
	t.Run("with it", func(t *testing.T) {
		nc := d.dialPlain()
		_, err := nc.Write(append(bytes.Clone(probe), call...))
		require.NoError(t, err)
		rest, _ := io.ReadAll(nc)
		assert.Empty(t, rest)
		assert.EqualValues(t, 1, d.server.Stats().Failed["injected"])
	})
	t.Run("after the answer", func(t *testing.T) {
		nc := d.dialPlain()
		_, err := nc.Write(probe)
		require.NoError(t, err)
		readRecord(t, nc)
		_, err = nc.Write(call)
		require.NoError(t, err)
		rest, _ := io.ReadAll(nc)
		assert.Empty(t, rest)
		assert.EqualValues(t, 2, d.server.Stats().Failed["injected"])
	})
	assert.Zero(t, d.service.callCount())
	assert.Contains(t, d.log.String(), "unencrypted bytes follow the call")
}

// TestProbeAmidCalls checks that a probe while a call is in flight ends the connection:
// the reply would come into the handshake.
func TestProbeAmidCalls(t *testing.T) {
	root := newAuthority(t, "root")
	d := newDaemon(t, ServerConfig{Files: filesOf(root.Issue(nil))})
	nc := d.dialPlain()
	call := AppendProbe(nil, 8, testProg, 1)
	binary.BigEndian.PutUint32(call[procAt:], procWait)
	binary.BigEndian.PutUint32(call[flavorAt:], rpcmsg.AuthNone)
	_, err := nc.Write(newRecord(append(call, 0, 0, 0, 0)))
	require.NoError(t, err)
	<-d.service.entered
	_, err = nc.Write(newRecord(AppendProbe(nil, testXID, testProg, 1)))
	require.NoError(t, err)
	rest, _ := io.ReadAll(nc)
	assert.Empty(t, rest)
	close(d.service.gate)
	assert.Contains(t, d.log.String(), "other calls are in flight")
	assert.EqualValues(t, 1, d.server.Stats().Failed["broken"])
}

// TestAudit checks that clients cannot fill the log with lines about connections, and
// that all are counted.
func TestAudit(t *testing.T) {
	root := newAuthority(t, "root")
	d := newDaemon(t, ServerConfig{Files: filesOf(root.Issue(nil))})
	nc := d.dialPlain()
	const many = 500
	for range many {
		d.server.NoteUnencrypted(nc)
		d.server.Refused(nc, oncrpc.ErrInjected)
	}
	st := d.server.Stats()
	assert.EqualValues(t, many, st.Clear)
	assert.EqualValues(t, many, st.Failed["injected"])
	assert.LessOrEqual(t, strings.Count(d.log.String(), "\n"), 300)
	callEcho(t, newCaller(t, d.dialPlain()), []byte("in clear"))
	assert.EqualValues(t, many+1, d.server.Stats().Clear)
}

// TestReverse checks calls to a client inside of TLS (R9289-5.1.1-6).
func TestReverse(t *testing.T) {
	root := newAuthority(t, "root")
	d := newDaemon(t, ServerConfig{Files: filesOf(root.Issue(nil))})
	conn, err := newTestClient(t, ClientConfig{Files: Files{CA: certtest.Bundle(root)}}).Secure(t.Context(), d.dialPlain(), testProg, 1)
	require.NoError(t, err)
	call := AppendProbe(nil, 8, testProg, 1)
	binary.BigEndian.PutUint32(call[procAt:], procBack)
	binary.BigEndian.PutUint32(call[flavorAt:], rpcmsg.AuthNone)
	_, err = conn.Write(newRecord(append(call, 0, 0, 0, 0)))
	require.NoError(t, err)
	back := readRecord(t, conn)
	assert.EqualValues(t, rpcmsg.MsgCall, uint32At(back, 4))
	_, err = conn.Write(newRecord(rpcmsg.AppendAccepted(nil, uint32At(back, 0), rpcmsg.Success)))
	require.NoError(t, err)
	assert.Equal(t, rpcmsg.AppendAccepted(nil, 8, rpcmsg.Success), readRecord(t, conn)[:rpcmsg.AcceptedLen])
}

// A recordingRelay stands between a client and the daemon. It keeps the bytes of the client, and
// gives those of the server to change, one read at a time.
type recordingRelay struct {
	l      net.Listener
	change func(number int, b []byte) []byte
	mu     sync.Mutex
	seen   bytes.Buffer
	conns  int
	wg     sync.WaitGroup
}

func (d *testDaemon) newRelay(change func(number int, b []byte) []byte) *recordingRelay {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(d.t, err)
	r := &recordingRelay{l: l, change: change}
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
			r.wg.Go(func() { r.relayBytes(server, client, func(_ int, b []byte) []byte { return r.recordBytes(b) }) })
			r.wg.Go(func() { r.relayBytes(client, server, r.change) })
		}
	})
	d.t.Cleanup(func() {
		l.Close()
		r.wg.Wait()
	})
	return r
}

func (r *recordingRelay) recordBytes(b []byte) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen.Write(b)
	return b
}

func (r *recordingRelay) relayBytes(to, from net.Conn, change func(int, []byte) []byte) {
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

func (r *recordingRelay) dialRelay(t *testing.T) net.Conn {
	nc, err := net.Dial("tcp", r.l.Addr().String())
	require.NoError(t, err)
	return nc
}

// unencryptedBytes returns what clients have sent that is not TLS, less one probe for each
// connection.
func (r *recordingRelay) unencryptedBytes(t *testing.T) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := bytes.Clone(r.seen.Bytes())
	probe := newRecord(AppendProbe(nil, 0, testProg, 1))
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
	r := d.newRelay(func(number int, b []byte) []byte {
		if number > 0 {
			answers.Write(b)
		}
		return b
	})
	secret := bytes.Repeat([]byte("secret"), 1000)
	conn, err := newTestClient(t, ClientConfig{Files: Files{CA: certtest.Bundle(root)}}).Secure(t.Context(), r.dialRelay(t), testProg, 1)
	require.NoError(t, err)
	c := newCaller(t, conn)
	for range 5 {
		callEcho(t, c, secret)
	}
	c.Close()
	assert.Empty(t, r.unencryptedBytes(t))
	require.NoError(t, r.l.Close())
	r.wg.Wait()
	assert.NotContains(t, r.seen.String(), "secret")
	assert.NotContains(t, answers.String(), "secret")

	tickets := &fakeSessionCache{}
	nc := d.dialPlain()
	_, err = nc.Write(newRecord(AppendProbe(nil, 1, testProg, 1)))
	require.NoError(t, err)
	readRecord(t, nc)
	other := tls.Client(nc, &tls.Config{InsecureSkipVerify: true, ClientSessionCache: tickets, NextProtos: []string{"sunrpc"}, Time: testNow})
	callEcho(t, newCaller(t, other), []byte("x"))
	assert.Zero(t, tickets.put)
}

type fakeSessionCache struct{ put int }

func (*fakeSessionCache) Get(string) (*tls.ClientSessionState, bool) { return nil, false }
func (c *fakeSessionCache) Put(_ string, s *tls.ClientSessionState)  { c.put++ }

// TestDowngrade checks that a client whose probe is answered away, or behind whose
// answer something comes, makes no unencrypted call, on any connection (R9289-6.1.1-1,
// R9289-6.1.1-2, R9289-4.1-13, R9289-4.1-8).
func TestDowngrade(t *testing.T) {
	root := newAuthority(t, "root")
	d := newDaemon(t, ServerConfig{Files: filesOf(root.Issue(nil))})
	c := newTestClient(t, ClientConfig{Files: Files{CA: certtest.Bundle(root)}})
	denial := func(stat rpcmsg.AuthError) func(int, []byte) []byte {
		return func(_ int, b []byte) []byte {
			return newRecord(rpcmsg.AppendAuthError(nil, uint32At(b, markLen), stat))
		}
	}
	for _, tt := range []struct {
		name, reason, words string
		change              func(number int, b []byte) []byte
	}{
		{"denied with AUTH_BADCRED", "no_tls", "has no TLS, or an attacker on the network pretends that", denial(rpcmsg.AuthBadCred)},
		{"denied with AUTH_REJECTEDCRED", "no_tls", "AUTH_REJECTEDCRED", denial(rpcmsg.AuthRejectedCred)},
		{"the token is taken away", "no_tls", "lacks STARTTLS", func(_ int, b []byte) []byte {
			return newRecord(rpcmsg.AppendAccepted(nil, uint32At(b, markLen), rpcmsg.Success))
		}},
		{"a plain reply behind the answer", "injected", "28 unencrypted bytes followed", func(_ int, b []byte) []byte {
			return append(bytes.Clone(b), newRecord(rpcmsg.AppendAccepted(nil, 1, rpcmsg.Success))...)
		}},
		{"a plain reply in place of the handshake", "injected", "unencrypted bytes arrived where TLS must begin", func(number int, b []byte) []byte {
			if number == 0 {
				return b
			}
			return newRecord(rpcmsg.AppendAccepted(nil, 1, rpcmsg.Success))
		}},
		{"no RPC", "no_tls", "does not reply with RPC", func(int, []byte) []byte { return []byte("HTTP/1.1 400 Bad Request\r\n\r\n") }},
		{"an alert", "refused", "rejects this host's certificate", func(number int, b []byte) []byte {
			if number == 0 {
				return b
			}
			return []byte{21, 3, 3, 0, 2, 2, byte(alertAccessDenied)}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := d.newRelay(tt.change)
			for range 50 {
				_, err := c.Secure(t.Context(), r.dialRelay(t), testProg, 1)
				require.Error(t, err)
				require.Equal(t, tt.reason, wordOf(err), err)
				require.ErrorContains(t, err, tt.words)
			}
			assert.Empty(t, r.unencryptedBytes(t))
		})
	}
	assert.Zero(t, d.service.callCount())
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

// TestStalls checks that stalled handshakes keep no client out, and end.
func TestStalls(t *testing.T) {
	root := newAuthority(t, "root")
	d := newDaemon(t, ServerConfig{Files: filesOf(root.Issue(nil))})
	d.server.handshakeLimit, d.server.handshakeTimeout = 8, time.Hour
	begun := uint64(0)
	stall := func(d *testDaemon) net.Conn {
		nc := d.dialPlain()
		_, err := nc.Write(newRecord(AppendProbe(nil, testXID, testProg, 1)))
		require.NoError(t, err)
		readRecord(t, nc)
		begun++ // a handshake counts from here on, which is a moment after the answer
		require.Eventually(t, func() bool {
			d.server.mu.Lock()
			defer d.server.mu.Unlock()
			return d.server.handshakeCount == begun
		}, 10*time.Second, time.Millisecond)
		return nc
	}
	var stalled []net.Conn
	for range 40 {
		stalled = append(stalled, stall(d))
	}
	c := newTestClient(t, ClientConfig{Files: Files{CA: certtest.Bundle(root)}})
	conn, err := c.Secure(t.Context(), d.dialPlain(), testProg, 1)
	require.NoError(t, err)
	callEcho(t, newCaller(t, conn), []byte("x"))
	st := d.server.Stats()
	assert.LessOrEqual(t, st.Handshakes, 8)
	for _, nc := range stalled[:30] { // they were aborted for the others
		_, err := nc.Read(make([]byte, 1))
		assert.Error(t, err)
	}
	assert.Contains(t, d.log.String(), "was aborted in favor of others")

	hasty := newDaemon(t, ServerConfig{Files: filesOf(root.Issue(nil))})
	hasty.server.handshakeTimeout = 20 * time.Millisecond
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
	r := d.newRelay(func(_ int, b []byte) []byte { return b })
	held := &heldConn{Conn: r.dialRelay(t), started: started}
	conn, err := newTestClient(t, ClientConfig{Files: Files{CA: certtest.Bundle(root)}}).Secure(t.Context(), held, testProg, 1)
	require.NoError(t, err)
	c := newCaller(t, conn)
	held.holdWrites(true)
	ctx, cancel := context.WithCancel(t.Context())
	given := make(chan error, 1)
	go func() { given <- c.Call(ctx, newExchange(procEcho, randomBytes(1<<19))) }()
	<-started
	cancel()
	assert.ErrorIs(t, <-given, context.Canceled)
	held.holdWrites(false)
	callEcho(t, c, randomBytes(1<<19))
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

func (h *heldConn) holdWrites(on bool) {
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
