package interop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fakeAgent replaces guest-agent: it takes one script and answers with pieces, each
// in a separate write.
func fakeAgent(t *testing.T, pieces ...string) (*net.TCPConn, <-chan string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	got := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		for _, p := range pieces {
			io.WriteString(c, p)
		}
		c.(*net.TCPConn).CloseWrite()
		b, _ := io.ReadAll(c)
		got <- string(b)
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	return c.(*net.TCPConn), got
}

func TestSession(t *testing.T) {
	for name, tt := range map[string]struct {
		pieces []string
		out    string
		status int
	}{
		"one piece":            {[]string{"hello\n\x00@rc=0\n"}, "hello\n", 0},
		"nothing":              {[]string{"\x00@rc=3\n"}, "", 3},
		"trailer in pieces":    {[]string{"a", "\x00", "@r", "c=12", "7\n"}, "a", 127},
		"binary output":        {[]string{"\x00\x00@", "\x00@rc=1\n", "\x00\x00@rc=255\n"}, "\x00\x00@\x00@rc=1\n\x00", 255},
		"output like the mark": {[]string{"\x00@rc=", "x\x00@rc=9\n"}, "\x00@rc=x", 9},
	} {
		t.Run(name, func(t *testing.T) {
			c, script := fakeAgent(t, tt.pieces...)
			s, err := newSession(t.Context(), c, "exit 3")
			require.NoError(t, err)
			defer s.Close()
			_, err = io.WriteString(s, "input")
			require.NoError(t, err)
			require.NoError(t, s.CloseWrite())
			out, err := io.ReadAll(s)
			require.NoError(t, err)
			assert.Equal(t, tt.out, string(out))
			assert.Equal(t, tt.status, s.Status())
			assert.Equal(t, "6\nexit 3input", <-script)
		})
	}
}

// TestSessionLine checks that a line can be read before the script ends.
func TestSessionLine(t *testing.T) {
	c, _ := fakeAgent(t, "ready\n")
	s, err := newSession(t.Context(), c, "")
	require.NoError(t, err)
	defer s.Close()
	line, err := bufio.NewReader(s).ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "ready\n", line)
}

func TestSessionCut(t *testing.T) {
	for _, end := range []string{"", "text", "\x00@rc=", "\x00@rc=1\nmore"} {
		c, _ := fakeAgent(t, end)
		s, err := newSession(t.Context(), c, "")
		require.NoError(t, err)
		out, err := io.ReadAll(s)
		require.ErrorIs(t, err, errAgent, "%q", end)
		assert.Equal(t, -1, s.Status())
		assert.LessOrEqual(t, len(out), len(end))
		s.Close()
	}
}

func TestSessionCancelled(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String()) // nothing accepts
	require.NoError(t, err)
	cause := errors.New("no more time")
	ctx, cancel := context.WithCancelCause(t.Context())
	s, err := newSession(ctx, c.(*net.TCPConn), "")
	require.NoError(t, err)
	defer s.Close()
	cancel(cause)
	_, err = io.ReadAll(s)
	assert.ErrorIs(t, err, cause)
}

func TestQuote(t *testing.T) {
	assert.Equal(t, `'it'\''s'`, quoteWord("it's"))
}

// TestExecOpen checks that the standard input of a script stays open until the
// exit status is there: qemu ends connections that are half closed for long.
func TestExecOpen(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	early := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		var length int
		_, _ = fmt.Fscanf(c, "%d\n", &length)
		_, _ = io.ReadFull(c, make([]byte, length))
		_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		_, err = c.Read(make([]byte, 1))
		early <- err
		_, _ = io.WriteString(c, "out\x00@rc=7\n")
	}()
	g := &Guest{ports: map[int]int{agentPort: l.Addr().(*net.TCPAddr).Port}}
	out, status, err := g.Exec(t.Context(), "exit 7")
	require.NoError(t, err)
	assert.Equal(t, "out", out)
	assert.Equal(t, 7, status)
	assert.ErrorIs(t, <-early, os.ErrDeadlineExceeded)
}
