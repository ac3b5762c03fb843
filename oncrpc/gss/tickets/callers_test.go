package tickets

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/krb5"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/tickets/wire"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcsec"
)

const testProg = 0x20000001 // from the range for local use

// A fakeAcceptor has the other end of fakeKeys.
type fakeAcceptor struct{ refusal *gss.Error }

func (a *fakeAcceptor) Accept(_ context.Context, token, _ []byte) (gss.Accepted, error) {
	if a.refusal != nil {
		return gss.Accepted{}, a.refusal
	}
	if string(token) != "token" {
		return gss.Accepted{}, errors.New("another token")
	}
	c, err := krb5.NewContext(krb5.Establishment{
		Key:            krb5.Key{Enctype: krb5.Enctype(fakeKeys.Enctype), Value: fakeKeys.Key},
		AcceptorSubkey: true, Acceptor: true, Expires: time.Now().Add(time.Hour),
	})
	return gss.Accepted{Context: c, Token: []byte("answer"), Principal: gss.Principal{Name: []string{"alice"}, Realm: "TEST.EXAMPLE"}}, err
}

// A testCallers is a server with a fakeAcceptor, behind Callers with a fake helper.
type testCallers struct {
	*testing.T
	*Callers
	flavor   uint32 // the calls' flavor
	acceptor fakeAcceptor
	server   *rpcsec.Server
	serving  atomic.Pointer[rpcsec.Server]
	mux      *oncrpc.Mux
	plain    atomic.Int32 // calls without a context
	starts   string       // a file with a byte for each helper
	noKDC    string       // a file, if no KDC answers
	log      bytes.Buffer
}

// Serve serves by the server as it is now (oncrpc.Service).
func (r *testCallers) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	return r.serving.Load().Serve(ctx, req, rep)
}

// forgetContexts makes the server forget all contexts.
func (r *testCallers) forgetContexts() {
	r.server = rpcsec.NewServer(r.mux, rpcsec.ServerConfig{
		Acceptor: &r.acceptor, Log: slog.New(slog.DiscardHandler),
		Map: func(context.Context, netip.Addr, gss.Principal) (rpcsec.User, bool, error) {
			return rpcsec.User{UID: 7}, true, nil
		},
	})
	r.serving.Store(r.server)
}

// ServeRPC counts calls without a context.
func (r *testCallers) ServeRPC(_ context.Context, c *oncrpc.Call, _ *oncrpc.Reply) error {
	if c.Cred.Flavor < rpcmsg.AuthKrb5 {
		r.plain.Add(1)
	}
	return nil
}

func newRig(t *testing.T, how string, flavor uint32) *testCallers {
	r := &testCallers{T: t, flavor: flavor, starts: filepath.Join(t.TempDir(), "starts"), noKDC: filepath.Join(t.TempDir(), "no KDC")}
	quiet := slog.New(slog.DiscardHandler)
	r.mux = &oncrpc.Mux{Log: quiet}
	r.mux.Register(testProg, 1, r)
	r.forgetContexts()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &oncrpc.Server{Handler: r, Log: quiet, MaxRecord: 1 << 20}
	served := make(chan error)
	go func() { served <- s.Serve(l) }()
	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	line := oncrpc.NewTCPClient(conn, oncrpc.ClientConfig{})
	t.Cleanup(func() {
		line.Close()
		assert.NoError(t, s.Shutdown(context.Background()))
		assert.NoError(t, <-served)
	})
	h := newFake(t, how)
	h.cfg.Env = append(h.cfg.Env, "TICKETS_STARTS="+r.starts, "TICKETS_NO_KDC="+r.noKDC)
	r.Callers = NewCallers(line, CallersConfig{
		Helper: h, Service: func(context.Context) (string, error) { return "nfs@server", nil }, Prog: testProg, Vers: 1, Log: slog.New(slog.NewTextHandler(&r.log, nil)),
	})
	return r
}

// makeCall makes a call of this process's user.
func (r *testCallers) makeCall() error {
	return r.callAs(rpcmsg.Cred{Flavor: r.flavor, UID: me.UID, GID: me.GID})
}

func (r *testCallers) callAs(cred rpcmsg.Cred) error {
	x := oncrpc.Exchange{Prog: testProg, Vers: 1, Proc: 1, Cred: cred}
	err := r.Call(r.Context(), &x)
	if err == nil {
		x.Release()
	}
	return err
}

// helperCount is how many helpers were started.
func (r *testCallers) helperCount() int {
	r.Helper()
	b, err := os.ReadFile(r.starts)
	require.NoError(r, err)
	return len(b)
}

// TestCallers checks that calls of a user share a context, which one helper makes,
// and that Close ends it at the server.
func TestCallers(t *testing.T) {
	for _, flavor := range []uint32{rpcmsg.AuthKrb5, rpcmsg.AuthKrb5i, rpcmsg.AuthKrb5p} {
		r := newRig(t, "good", flavor)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { assert.NoError(t, r.makeCall()) })
		}
		all.Wait()
		assert.Equal(t, 1, r.helperCount())
		assert.EqualValues(t, 1, r.server.Stats().Contexts)
		assert.Zero(t, r.plain.Load())
		r.Close(t.Context())
		assert.Zero(t, r.server.Stats().Contexts)
		assert.Equal(t, errClosed, r.makeCall())
	}
}

// TestCallersCost checks that a call in a context that exists costs no allocation of
// this package.
func TestCallersCost(t *testing.T) {
	r := newRig(t, "good", rpcmsg.AuthKrb5)
	user := User{UID: me.UID, GID: me.GID, Groups: []uint32{7, 8}}
	_, _, err := r.acquireMember(user, r.flavor)
	require.NoError(t, err)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		m, _, err := r.acquireMember(user, r.flavor)
		if err != nil {
			panic(err)
		}
		r.releaseMember(m)
	}))
}

// TestNoUser checks that calls of AUTH_NONE and AUTH_SYS, such as NULL and FSINFO, need
// no context.
func TestNoUser(t *testing.T) {
	r := newRig(t, "none", rpcmsg.AuthKrb5)
	require.NoError(t, r.callAs(rpcmsg.Cred{Flavor: rpcmsg.AuthNone}))
	require.NoError(t, r.callAs(rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: me.UID}))
	assert.EqualValues(t, 2, r.plain.Load())
	assert.NoFileExists(t, r.starts)
}

// TestNoTicket checks that a user without a ticket gets EACCES, with one helper for
// many calls, and one line of the log.
func TestNoTicket(t *testing.T) {
	r := newRig(t, "none", rpcmsg.AuthKrb5)
	r.failureLife = time.Hour
	for range 10 {
		err := r.makeCall()
		assert.ErrorIs(t, err, unix.EACCES)
		assert.EqualError(t, err, me.displayName()+": no ticket (FILE:/tmp/krb5cc_1001): run kinit")
	}
	assert.Equal(t, 1, r.helperCount())

	r = newRig(t, "none", rpcmsg.AuthKrb5)
	r.failureLife = 0
	for range 3 {
		assert.ErrorIs(t, r.makeCall(), unix.EACCES)
	}
	assert.Equal(t, 3, r.helperCount(), "the user may have run kinit")
	assert.Equal(t, 1, strings.Count(r.log.String(), "no ticket"), r.log.String())
}

// TestLack checks which troubles mean that a user cannot have a context, and that the
// server is not asked.
func TestLack(t *testing.T) {
	for how, want := range map[string]string{
		"good": "", "expired": "", "no KDC": "", "die": "",
		"none":       "no ticket (FILE:/tmp/krb5cc_1001): run kinit",
		"no library": "install it",
	} {
		r := newRig(t, how, rpcmsg.AuthKrb5)
		err := r.Lack(t.Context(), rpcmsg.Cred{UID: me.UID, GID: me.GID})
		if want == "" {
			assert.NoError(t, err, how)
		} else {
			assert.ErrorContains(t, err, want)
		}
		assert.Zero(t, r.server.Stats().Contexts)
		assert.Empty(t, r.log.String())
	}
	r := newRig(t, "good", rpcmsg.AuthKrb5)
	r.cfg.Service = func(context.Context) (string, error) { return "", errors.New("no name") }
	assert.EqualError(t, r.Lack(t.Context(), rpcmsg.Cred{UID: me.UID}), "no name")
}

// TestNoKDC checks that a user who has had a context waits for the KDC, as for a server
// that restarts too: on a hard mount for ever, on a soft one for a time. A user who has
// had none gets EACCES at once.
func TestNoKDC(t *testing.T) {
	r := newRig(t, "no KDC", rpcmsg.AuthKrb5)
	assert.ErrorIs(t, r.makeCall(), unix.EACCES)
	assert.Equal(t, 1, r.helperCount())

	r = newRig(t, "good", rpcmsg.AuthKrb5)
	r.failureLife = time.Millisecond
	require.NoError(t, r.makeCall())
	stop := func() {
		r.forgetContexts()
		require.NoError(t, os.WriteFile(r.noKDC, nil, 0o600))
	}
	called := make(chan error)
	waiting := func(ctx context.Context) {
		before := r.helperCount()
		go func() {
			x := oncrpc.Exchange{Prog: testProg, Vers: 1, Proc: 1, Cred: rpcmsg.Cred{Flavor: r.flavor, UID: me.UID, GID: me.GID}}
			err := r.Call(ctx, &x)
			x.Release()
			called <- err
		}()
		require.Eventually(t, func() bool { return r.helperCount() > before+1 }, 20*time.Second, time.Millisecond)
	}
	stop()
	waiting(t.Context())
	require.NoError(t, os.Remove(r.noKDC))
	assert.NoError(t, <-called)
	assert.Equal(t, 1, strings.Count(r.log.String(), "no KDC answers"))

	stop()
	ctx, cancel := context.WithCancelCause(t.Context())
	waiting(ctx)
	cancel(os.ErrProcessDone)
	assert.Equal(t, os.ErrProcessDone, <-called, "the program has ended")
	r.cfg.GiveUp = 10 * time.Millisecond
	assert.ErrorContains(t, r.makeCall(), "no KDC answers")
}

// TestExpired checks the error of an expired ticket.
func TestExpired(t *testing.T) {
	r := newRig(t, "expired", rpcmsg.AuthKrb5)
	err := r.makeCall()
	assert.ErrorIs(t, err, unix.EKEYEXPIRED)
	assert.NotErrorIs(t, err, unix.EACCES)
	var own *Error
	require.ErrorAs(t, err, &own)
	assert.Equal(t, time.Unix(1<<30, 0), own.Ended)
}

// TestRefusals checks the words for what servers say, in the numbers of RFC 4120 and
// of MIT's library.
func TestRefusals(t *testing.T) {
	mit := func(code int32) uint32 { return uint32(-1765328384 + code) }
	for _, tt := range []struct {
		minor  uint32
		reason wire.Reason
		words  string
	}{
		{37, wire.Clock, "the clocks of client and server differ"},
		{mit(37), wire.Clock, "the clocks of client and server differ"},
		{33, wire.Clock, "your ticket is not valid yet: set the clocks"},
		{mit(33), wire.Clock, "your ticket is not valid yet: set the clocks"},
		{32, wire.Expired, "expired"},
		{mit(32), wire.Expired, "expired"},
		{45, wire.Other, "ktadd"},
		{mit(44), wire.Other, "ktadd"},
		{99, wire.Other, "(GSS_S_FAILURE, minor status 99): its log has the reason"},
	} {
		r := newRig(t, "good", rpcmsg.AuthKrb5)
		r.failureLife = time.Hour
		r.acceptor.refusal = &gss.Error{Major: gss.Failure, Minor: tt.minor, Err: errors.New("refused")}
		var own *Error
		require.ErrorAs(t, r.makeCall(), &own)
		assert.Equal(t, tt.reason, own.Reason)
		assert.Contains(t, own.Text, tt.words)
		require.Error(t, r.makeCall())
		assert.Equal(t, 1, r.helperCount(), "the refusal is kept")
	}
}

// TestEviction checks that the user whose last call was the earliest makes room, and
// no user with a call in flight.
func TestEviction(t *testing.T) {
	c := NewCallers(nil, CallersConfig{})
	busy, _, err := c.acquireMember(User{UID: 0}, rpcmsg.AuthKrb5)
	require.NoError(t, err)
	var members []*userContext
	for uid := range uint32(maxUsers - 1) {
		m, spare, err := c.acquireMember(User{UID: uid + 1}, rpcmsg.AuthKrb5)
		require.NoError(t, err)
		require.Nil(t, spare)
		members = append(members, m)
	}
	for _, m := range members {
		c.releaseMember(m)
	}
	again, _, err := c.acquireMember(User{UID: 1}, rpcmsg.AuthKrb5)
	require.NoError(t, err)
	assert.Same(t, members[0], again)
	c.releaseMember(again)
	_, spare, err := c.acquireMember(User{UID: 5000}, rpcmsg.AuthKrb5)
	require.NoError(t, err)
	assert.Same(t, members[1].client, spare)
	assert.Len(t, c.users, maxUsers)
	assert.Same(t, busy, c.users[userKey{0, rpcmsg.AuthKrb5}])
}
