package tickets

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/krb5"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/tickets/wire"
)

// TestMain is nfsrdma-gss if the environment says how it is to behave.
func TestMain(m *testing.M) {
	if how := os.Getenv("TICKETS_FAKE"); how != "" {
		os.Exit(fakeHelper(how))
	}
	os.Exit(m.Run())
}

var fakeKeys = wire.Keys{Enctype: 18, Key: bytes.Repeat([]byte{7}, 32), Subkey: true, Expires: 1 << 33, User: "alice@TEST.EXAMPLE"}

// fakeHelper behaves as nfsrdma-gss, or worse.
func fakeHelper(how string) int {
	say := func(m wire.Message) { _ = wire.Write(os.Stdout, m) }
	var bindings []byte
	hear := func() {
		if q, ok := readRequest(); ok {
			bindings = q.Bindings
		}
	}
	if starts, err := os.OpenFile(os.Getenv("TICKETS_STARTS"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err == nil {
		_, _ = starts.WriteString("x")
	}
	hear()
	if _, err := os.Stat(os.Getenv("TICKETS_NO_KDC")); err == nil {
		how = "no KDC"
	}
	switch how {
	case "good", "hang later", "bad keys":
		say(&wire.Token{Token: []byte("token")})
		hear()
		if how == "hang later" {
			hear() // for ever
		}
		keys := fakeKeys
		if how == "bad keys" {
			keys.Enctype = 23
		}
		say(&keys)
	case "expired":
		say(&wire.Failure{Reason: wire.Expired, Text: "your ticket expired 3 minutes ago (FILE:/tmp/krb5cc_1001): run kinit", Ended: 1 << 30})
	case "none":
		say(&wire.Failure{Reason: wire.NoTicket, Text: "no ticket (FILE:/tmp/krb5cc_1001): run kinit"})
	case "no KDC":
		say(&wire.Failure{Reason: wire.NoKDC, Text: "no KDC answers"})
	case "no library":
		say(&wire.Failure{Reason: wire.NoLibrary, Text: "install it"})
	case "hang":
		hear()
	case "die":
		fmt.Fprintln(os.Stderr, "a word\x1b of the library")
		return 3
	case "die silently":
	case "garbage":
		fmt.Print("Segmentation fault, and more words than a message has\n")
	case "early keys":
		say(&fakeKeys)
	case "empty token":
		say(&wire.Token{})
	case "request":
		say(&wire.Request{})
	case "bindings":
		say(&wire.Failure{Text: fmt.Sprintf("bound to %s", bindings)})
	case "environment":
		dir, _ := os.Getwd()
		say(&wire.Failure{Text: fmt.Sprintf("%s %s %q", dir, os.Getenv("HOME"), os.Getenv("KRB5CCNAME"))})
	}
	return 0
}

// readRequest reads a message, and returns the request if that is one.
func readRequest() (*wire.Request, bool) {
	m, _ := wire.Read(os.Stdin)
	q, ok := m.(*wire.Request)
	return q, ok
}

// TestBindings checks that the helper gets the channel bindings of the connection.
func TestBindings(t *testing.T) {
	i, err := newFake(t, "bindings").Begin(t.Context(), me, "nfs@server", []byte("tls-exporter:x"))
	require.NoError(t, err)
	defer i.Close()
	_, _, err = i.Step(t.Context(), nil)
	assert.ErrorContains(t, err, "bound to tls-exporter:x")
}

// newFake returns a Helper whose program behaves as told.
func newFake(t testing.TB, how string) *Helper {
	self, err := os.Executable()
	require.NoError(t, err)
	return NewHelper(Config{Program: self, Keytab: "/nonexistent", Host: "client.test.example", Env: []string{"TICKETS_FAKE=" + how}})
}

var me = User{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}

// establishContext makes a context, with an answer of the server.
func establishContext(ctx context.Context, h *Helper) (gss.Context, error) {
	i, err := h.Begin(ctx, me, "nfs@server", nil)
	if err != nil {
		return nil, err
	}
	defer i.Close()
	_, c, err := i.Step(ctx, nil)
	if err != nil || c != nil {
		return c, err
	}
	_, c, err = i.Step(ctx, []byte("answer"))
	return c, err
}

// TestAttempt checks that the context has the helper's keys.
func TestAttempt(t *testing.T) {
	c, err := establishContext(t.Context(), newFake(t, "good"))
	require.NoError(t, err)
	other, err := krb5.NewContext(krb5.Establishment{Key: krb5.Key{Enctype: 18, Value: fakeKeys.Key}, AcceptorSubkey: true, Acceptor: true})
	require.NoError(t, err)
	mic, err := c.AppendMIC(nil, [][]byte{[]byte("message")})
	require.NoError(t, err)
	assert.NoError(t, other.VerifyMIC(mic, [][]byte{[]byte("message")}))
	assert.Equal(t, time.Unix(1<<33, 0), c.Expires())
}

// TestBrokenHelpers checks the words for helpers that hang, die and lie. None
// keeps the user's turn.
func TestBrokenHelpers(t *testing.T) {
	const release = "is it from the same release as mountrdma?"
	for how, want := range map[string]string{
		"hang": "nfsrdma-gss did not finish within 300ms", "hang later": "nfsrdma-gss did not finish within 300ms",
		"die": `nfsrdma-gss has exited: exit status 3: a word\x1b of the library`, "die silently": "nfsrdma-gss has exited: exit status 0",
		"garbage": release, "early keys": release, "empty token": release, "request": release,
		"bad keys": "the context's keys cannot be used",
		"expired":  "your ticket expired 3 minutes ago (FILE:/tmp/krb5cc_1001): run kinit", "none": "no ticket",
		"environment": `/ / ""`,
	} {
		t.Run(how, func(t *testing.T) {
			h := newFake(t, how)
			if how == "hang" || how == "hang later" {
				h.limit = 300 * time.Millisecond
			}
			for range 2 {
				_, err := establishContext(t.Context(), h)
				var own *Error
				require.ErrorAs(t, err, &own)
				assert.Contains(t, own.Text, want)
				assert.Empty(t, h.turns)
				assert.Empty(t, h.running)
			}
		})
	}
}

// TestTurns checks that a user has one helper at a time, and that another waits as
// long as its context permits.
func TestTurns(t *testing.T) {
	h := newFake(t, "good")
	first, err := h.Begin(t.Context(), me, "nfs@server", nil)
	require.NoError(t, err)
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(context.DeadlineExceeded)
	_, err = h.Begin(ended, me, "nfs@server", nil)
	assert.Equal(t, context.DeadlineExceeded, err)
	second := make(chan error)
	go func() {
		_, err := establishContext(t.Context(), h)
		second <- err
	}()
	select {
	case <-second:
		t.Error("two helpers at once")
	case <-time.After(50 * time.Millisecond): // a wrong helper needs less
	}
	first.Close()
	assert.NoError(t, <-second)
	assert.Empty(t, h.turns)
}

// TestEndOfCall checks that the end of a call ends its helper.
func TestEndOfCall(t *testing.T) {
	h := newFake(t, "hang")
	ctx, cancel := context.WithCancelCause(t.Context())
	i, err := h.Begin(ctx, me, "nfs@server", nil)
	require.NoError(t, err)
	cancel(os.ErrProcessDone)
	_, _, err = i.Step(ctx, nil)
	assert.Equal(t, os.ErrProcessDone, err)
	i.Close()
	assert.Empty(t, h.turns)
}

// TestCoveredHelper checks that a helper starts although its path now leads nowhere, or
// into a mount that does not answer.
func TestCoveredHelper(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	path := t.TempDir() + "/nfsrdma-gss"
	require.NoError(t, os.Symlink(self, path))
	h := NewHelper(Config{Program: path, Env: []string{"TICKETS_FAKE=good"}})
	require.NoError(t, os.Remove(path))
	for range 2 {
		_, err = establishContext(t.Context(), h)
		assert.NoError(t, err)
	}
}

// TestPassing checks which failures may pass, with nothing changed by the user.
func TestPassing(t *testing.T) {
	busy := me.startError(&os.PathError{Op: "fork/exec", Path: "nfsrdma-gss", Err: unix.EAGAIN})
	full := me.startError(os.NewSyscallError("pipe2", unix.EMFILE))
	for err, want := range map[error]bool{
		busy:                         true,
		full:                         true,
		me.startError(unix.ENOEXEC):  false,
		&Error{Reason: wire.NoKDC}:   true,
		&Error{Reason: wire.Expired}: false,
		&Error{}:                     false,
	} {
		assert.Equal(t, want, err.(*Error).isTransient(), "%v", err)
	}
	_, err := establishContext(t.Context(), NewHelper(Config{Program: "/dev/null"}))
	assert.ErrorContains(t, err, "nfsrdma-gss cannot be started: fork/exec /dev/null: ")
}

// TestMissingHelper checks the words for a helper that is not installed.
func TestMissingHelper(t *testing.T) {
	h := NewHelper(Config{Program: "/nonexistent/nfsrdma-gss"})
	_, err := establishContext(t.Context(), h)
	assert.EqualError(t, err, me.displayName()+": /nonexistent/nfsrdma-gss is missing: install it next to mountrdma")
	assert.ErrorIs(t, err, unix.EACCES)
	assert.Empty(t, h.turns)
}
