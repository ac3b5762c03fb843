package main

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/tickets/wire"
)

var request = &wire.Request{Service: "nfs@server", Caches: []string{"FILE:/tmp/krb5cc_1"}, Enctypes: []uint32{18}}

// A fakeInitiator is complete after some answers.
type fakeInitiator struct {
	answers []string
	rounds  int
	stepErr error
	keysErr error
}

func (i *fakeInitiator) step(answer []byte) ([]byte, bool, error) {
	i.answers = append(i.answers, string(answer))
	return []byte("next"), len(i.answers) == i.rounds, i.stepErr
}

func (i *fakeInitiator) keys() (*wire.Keys, error) {
	if i.keysErr != nil {
		return nil, i.keysErr
	}
	return &wire.Keys{Enctype: 18, Key: []byte("key"), User: "alice"}, nil
}

// served runs serve on messages of a mount, and returns the helper's.
func served(t *testing.T, i *fakeInitiator, beginErr error, from ...wire.Message) (out []wire.Message, err error) {
	t.Helper()
	var in, raw bytes.Buffer
	for _, m := range from {
		require.NoError(t, wire.Write(&in, m))
	}
	err = serve(&in, &raw, func(q *wire.Request) (initiator, []byte, error) {
		assert.Equal(t, request, q)
		return i, []byte("first"), beginErr
	})
	for {
		m, end := wire.Read(&raw)
		if end != nil {
			assert.Equal(t, io.EOF, end)
			return out, err
		}
		out = append(out, m)
	}
}

func token(text string) *wire.Token { return &wire.Token{Token: []byte(text)} }

// TestExchange checks the order of messages, with one answer of the server and
// with more.
func TestExchange(t *testing.T) {
	keys := &wire.Keys{Enctype: 18, Key: []byte("key"), User: "alice"}
	one, two := &fakeInitiator{rounds: 1}, &fakeInitiator{rounds: 2}
	out, err := served(t, one, nil, request, token("answer"))
	require.NoError(t, err)
	assert.Equal(t, []wire.Message{token("first"), keys}, out)
	assert.Equal(t, []string{"answer"}, one.answers)
	out, err = served(t, two, nil, request, token("a"), token("b"))
	require.NoError(t, err)
	assert.Equal(t, []wire.Message{token("first"), token("next"), keys}, out)
	assert.Equal(t, []string{"a", "b"}, two.answers)
}

// TestFailures checks that each step's failure reaches the mount, and ends the
// exchange.
func TestFailures(t *testing.T) {
	failure := &wire.Failure{Reason: wire.NoKDC, Words: "no KDC answers"}
	out, err := served(t, nil, failure, request)
	require.NoError(t, err)
	assert.Equal(t, []wire.Message{failure}, out)
	out, err = served(t, &fakeInitiator{stepErr: failure}, nil, request, token("answer"))
	require.NoError(t, err)
	assert.Equal(t, []wire.Message{token("first"), failure}, out)
	out, err = served(t, &fakeInitiator{rounds: 1, keysErr: failure}, nil, request, token("answer"))
	require.NoError(t, err)
	assert.Equal(t, []wire.Message{token("first"), failure}, out)

	out, err = served(t, &fakeInitiator{}, nil, request, token("1"), token("2"), token("3"), token("4"))
	require.NoError(t, err)
	assert.Equal(t, "the server wants too many tokens", out[len(out)-1].(*wire.Failure).Words)
}

// TestBadMount checks that a mount that ends or talks nonsense ends the helper.
func TestBadMount(t *testing.T) {
	for _, from := range [][]wire.Message{{}, {request}, {token("token")}, {request, request}} {
		_, err := served(t, &fakeInitiator{rounds: 1}, nil, from...)
		require.Error(t, err)
	}
	_, err := served(t, nil, errors.New("broken"), request)
	assert.EqualError(t, err, "broken")
}

// TestOtherVersion checks that a mount of another version learns that.
func TestOtherVersion(t *testing.T) {
	var out bytes.Buffer
	newer := []byte{0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, wire.Version + 1, 0, 0, 0, 0}
	require.NoError(t, serve(bytes.NewReader(newer), &out, nil))
	m, err := wire.Read(&out)
	require.NoError(t, err)
	assert.Equal(t, wire.BadVersion, m.(*wire.Failure).Reason)
	assert.Contains(t, m.(*wire.Failure).Words, "version 2")
}

// TestForbidDumps checks that the process leaves no core.
func TestForbidDumps(t *testing.T) {
	require.NoError(t, forbidDumps())
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_CORE, &limit))
	assert.Equal(t, unix.Rlimit{}, limit)
}
