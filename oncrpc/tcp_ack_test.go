package oncrpc

import (
	"bytes"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRecordInTwoParts checks that a client with Nagle's algorithm on, which writes a call
// in two small parts, does not wait 40 ms for the acknowledgement of the first one.
func TestRecordInTwoParts(t *testing.T) {
	nc := startServer(t, &Server{Handler: echoMux()}).dialServer()
	require.NoError(t, nc.SetNoDelay(false))
	msg := newRecord(echoCall(1, procHead, []byte("hello")))
	var took []time.Duration
	for range 41 {
		begin := time.Now()
		for _, part := range [][]byte{msg[:4], msg[4:40], msg[40:]} {
			_, err := nc.Write(part)
			require.NoError(t, err)
		}
		readRecord(t, nc)
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	assert.Less(t, took[len(took)/2], 30*time.Millisecond, "of most calls; Linux delays an acknowledgement by 40 ms at least")
}

// TestAcknowledgesHalfRecords checks that only records which arrive in parts cost a system
// call for an acknowledgement.
func TestAcknowledgesHalfRecords(t *testing.T) {
	s := &Server{Handler: echoMux()}
	s.init()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	far, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	near, err := l.Accept()
	require.NoError(t, err)
	acks := make(chan struct{}, 100)
	s.mu.Lock()
	c := newTCPConn(s, near, s.parties.Enter(near.RemoteAddr()))
	ack := c.socket.Ack
	c.socket.Ack = func() { acks <- struct{}{}; ack() }
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	s.tasks.Go(c)

	for _, n := range []int{0, 5, 1000, readBuffer - 200, 2 * readBuffer, 1 << 20} { // whole records, the latter with several reads
		_, err := far.Write(newRecord(echoCall(1, procHead, make([]byte, n))))
		require.NoError(t, err)
		readRecord(t, far)
	}
	two := newRecord(echoCall(1, procHead, nil))
	_, err = far.Write(bytes.Repeat(two, 50))
	require.NoError(t, err)
	for range 50 {
		readRecord(t, far)
	}
	assert.Empty(t, acks)

	_, err = far.Write(two[:20])
	require.NoError(t, err)
	select {
	case <-acks:
	case <-time.After(10 * time.Second):
		t.Error("no acknowledgement")
	}
	_, err = far.Write(two[20:])
	require.NoError(t, err)
	readRecord(t, far)
	assert.Empty(t, acks)
	require.NoError(t, far.Close())
	require.NoError(t, s.Shutdown(t.Context()))
	checkNothingLeft(t, s)
}
