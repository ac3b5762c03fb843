package quickack

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// newConnPair returns the two ends of a connection.
func newConnPair(t *testing.T) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	far, err = net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { far.Close() })
	near, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { near.Close() })
	return near, far
}

// TestReader checks which reads are preceded by an acknowledgement.
func TestReader(t *testing.T) {
	near, far := newConnPair(t)
	r := NewReader(near)
	sent := 0
	ack := r.Ack
	r.Ack = func() { sent++; ack() }
	for _, tt := range []struct {
		name          string
		within        bool
		before, space int // bytes sent before the first read, and its space
		want          int
	}{
		{"complete", false, 100, 1000, 0},
		{"within a message", true, 100, 1000, 1},
		{"no space for more", true, 100, 100, 0},
		{"many bytes", true, Few, 2 * Few, 0},
		{"a few less", true, Few - 1, 2 * Few, 1},
	} {
		sent, r.wasShort = 0, false
		send := func(n int) {
			_, err := far.Write(make([]byte, n))
			require.NoError(t, err)
		}
		r.Within = false
		send(tt.before)
		n, err := r.Read(make([]byte, tt.space))
		require.NoError(t, err)
		require.Equal(t, tt.before, n, "loopback delivers what was written with one call at once")
		r.Within = tt.within
		send(10)
		n, err = r.Read(make([]byte, 10))
		require.NoError(t, err)
		require.Equal(t, 10, n)
		assert.Equal(t, tt.want, sent, tt.name)
	}
	a, b := net.Pipe()
	defer a.Close()
	r = NewReader(a)
	r.Within, r.wasShort = true, true
	go b.Close()
	_, err := r.Read(make([]byte, 1))
	assert.Equal(t, io.EOF, err)
}
