package main

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/oncrpc/gss/tickets/wire"
)

var request = &wire.Request{Service: "nfs@server", Caches: []string{"FILE:/tmp/krb5cc_1"}, Enctypes: []uint32{18}}

// A fakeInitiator is complete after the given number of rounds.
type fakeInitiator struct {
	answers []string
	rounds  int
	stepErr error
	keysErr error
}

func (i *fakeInitiator) nextToken(answer []byte) ([]byte, bool, error) {
	i.answers = append(i.answers, string(answer))
	return []byte("next"), len(i.answers) == i.rounds, i.stepErr
}

func (i *fakeInitiator) exportKeys() (*wire.Keys, error) {
	if i.keysErr != nil {
		return nil, i.keysErr
	}
	return &wire.Keys{Enctype: 18, Key: []byte("key"), User: "alice"}, nil
}

// runExchange runs serveRequest on a mount's messages, and returns the replies.
func runExchange(t *testing.T, i *fakeInitiator, beginErr error, from ...wire.Message) (out []wire.Message, err error) {
	t.Helper()
	var in, raw bytes.Buffer
	for _, m := range from {
		require.NoError(t, wire.Write(&in, m))
	}
	err = serveRequest(&in, &raw, func(q *wire.Request) (initiator, []byte, error) {
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

func tokenMessage(text string) *wire.Token { return &wire.Token{Token: []byte(text)} }

// TestExchange checks the order of messages for one and two rounds.
func TestExchange(t *testing.T) {
	keys := &wire.Keys{Enctype: 18, Key: []byte("key"), User: "alice"}
	one, two := &fakeInitiator{rounds: 1}, &fakeInitiator{rounds: 2}
	out, err := runExchange(t, one, nil, request, tokenMessage("answer"))
	require.NoError(t, err)
	assert.Equal(t, []wire.Message{tokenMessage("first"), keys}, out)
	assert.Equal(t, []string{"answer"}, one.answers)
	out, err = runExchange(t, two, nil, request, tokenMessage("a"), tokenMessage("b"))
	require.NoError(t, err)
	assert.Equal(t, []wire.Message{tokenMessage("first"), tokenMessage("next"), keys}, out)
	assert.Equal(t, []string{"a", "b"}, two.answers)
}

// TestFailures checks that a failure at each step is reported to the mount and ends
// the exchange.
func TestFailures(t *testing.T) {
	failure := &wire.Failure{Reason: wire.NoKDC, Text: "no KDC responds"}
	out, err := runExchange(t, nil, failure, request)
	require.NoError(t, err)
	assert.Equal(t, []wire.Message{failure}, out)
	out, err = runExchange(t, &fakeInitiator{stepErr: failure}, nil, request, tokenMessage("answer"))
	require.NoError(t, err)
	assert.Equal(t, []wire.Message{tokenMessage("first"), failure}, out)
	out, err = runExchange(t, &fakeInitiator{rounds: 1, keysErr: failure}, nil, request, tokenMessage("answer"))
	require.NoError(t, err)
	assert.Equal(t, []wire.Message{tokenMessage("first"), failure}, out)

	out, err = runExchange(t, &fakeInitiator{}, nil, request, tokenMessage("1"), tokenMessage("2"), tokenMessage("3"), tokenMessage("4"))
	require.NoError(t, err)
	assert.Equal(t, "the server requests too many tokens", out[len(out)-1].(*wire.Failure).Text)
}

// TestBadMount checks that the program ends if the mount ends or sends invalid messages.
func TestBadMount(t *testing.T) {
	for _, from := range [][]wire.Message{{}, {request}, {tokenMessage("token")}, {request, request}} {
		_, err := runExchange(t, &fakeInitiator{rounds: 1}, nil, from...)
		require.Error(t, err)
	}
	_, err := runExchange(t, nil, errors.New("broken"), request)
	assert.EqualError(t, err, "broken")
}

// TestOtherVersion checks that a mount with another protocol version is told so.
func TestOtherVersion(t *testing.T) {
	var out bytes.Buffer
	newer := []byte{0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, wire.Version + 1, 0, 0, 0, 0}
	require.NoError(t, serveRequest(bytes.NewReader(newer), &out, nil))
	m, err := wire.Read(&out)
	require.NoError(t, err)
	assert.Equal(t, wire.BadVersion, m.(*wire.Failure).Reason)
	assert.Contains(t, m.(*wire.Failure).Text, "version 2")
}

// TestForbidDumps checks that the process writes no core dump.
func TestForbidDumps(t *testing.T) {
	require.NoError(t, forbidDumps())
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_CORE, &limit))
	assert.Equal(t, unix.Rlimit{}, limit)
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	require.NoError(t, err)
	assert.Zero(t, dumpable, "no core is passed to a program")
}
