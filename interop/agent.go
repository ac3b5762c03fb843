package interop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
)

// The comment in guest/agent.c describes guest-agent's protocol.
const (
	trailerMark = "\x00@rc="
	trailerMax  = len(trailerMark) + len("255\n") // bytes
)

// errAgent means that the script's end was not reported: the guest is gone, or
// the agent could not start the script.
var errAgent = errors.New("no exit status from the guest")

// A Session is a script that runs in the guest. Read returns its output, to
// io.EOF; Write is its standard input.
type Session struct {
	conn   *net.TCPConn
	cancel func() bool
	ended  func() error // the cause if this side closed conn, or nil
	held   []byte       // read and not yet returned
	err    error        // the error after held
	status int
}

// Open starts a shell script in the guest. When ctx ends, the connection closes;
// the script may continue.
func (g *Guest) Open(ctx context.Context, script string) (*Session, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", g.Addr(agentPort))
	if err != nil {
		return nil, err
	}
	return newSession(ctx, c.(*net.TCPConn), script)
}

func newSession(ctx context.Context, c *net.TCPConn, script string) (*Session, error) {
	s := &Session{conn: c, ended: func() error { return context.Cause(ctx) }, status: -1}
	s.cancel = context.AfterFunc(ctx, func() { c.Close() })
	if _, err := fmt.Fprintf(c, "%d\n%s", len(script), script); err != nil {
		s.Close()
		return nil, s.explainError(err)
	}
	return s, nil
}

// Read returns the script's output. After io.EOF, Status is known.
func (s *Session) Read(p []byte) (int, error) {
	var chunk [32 << 10]byte
	for {
		if n := s.safeOutput(); n > 0 {
			n = copy(p, s.held[:n])
			s.held = s.held[n:]
			return n, nil
		}
		if s.err != nil {
			return 0, s.err
		}
		n, err := s.conn.Read(chunk[:])
		s.held = append(s.held, chunk[:n]...)
		if err == io.EOF {
			s.cutTrailer()
		} else if err != nil {
			s.err = s.explainError(err)
		}
	}
}

// safeOutput returns the number of held bytes that are certainly the script's: a tail
// that may be the trailer, or its beginning, is withheld until the end.
func (s *Session) safeOutput() int {
	if s.err != nil {
		return len(s.held)
	}
	from := max(0, len(s.held)-trailerMax)
	i := bytes.LastIndexByte(s.held[from:], trailerMark[0])
	if i < 0 {
		return len(s.held)
	}
	tail := string(s.held[from+i:])
	if strings.HasPrefix(trailerMark, tail) || strings.HasPrefix(tail, trailerMark) {
		return from + i
	}
	return len(s.held)
}

// cutTrailer cuts the trailer off.
func (s *Session) cutTrailer() {
	n := s.safeOutput()
	word, ok := strings.CutPrefix(string(s.held[n:]), trailerMark)
	status, err := strconv.Atoi(strings.TrimSuffix(word, "\n"))
	if !ok || err != nil {
		s.err = errAgent
		return
	}
	s.held, s.status, s.err = s.held[:n], status, io.EOF
}

func (s *Session) explainError(err error) error {
	if why := s.ended(); why != nil {
		return fmt.Errorf("%w: %w", why, err)
	}
	return err
}

// Write writes p to the script's standard input.
func (s *Session) Write(p []byte) (int, error) { return s.conn.Write(p) }

// CloseWrite ends the script's standard input.
func (s *Session) CloseWrite() error { return s.conn.CloseWrite() }

// Status is the script's exit status, known once Read has returned io.EOF.
func (s *Session) Status() int { return s.status }

// Close abandons the script.
func (s *Session) Close() {
	s.cancel()
	s.conn.Close()
}

// Exec runs a shell script in the guest and returns its output, of both
// streams, and its exit status. An error means that the status is unknown.
func (g *Guest) Exec(ctx context.Context, script string) (out string, status int, err error) {
	var b strings.Builder
	status, err = g.runScript(ctx, script, nil, &b)
	return b.String(), status, err
}

// runScript runs a script with the content of in, or nothing, as its standard input,
// and passes its output on to out. qemu ends a connection that has been half
// closed for some minutes, so without input run closes nothing before the exit
// status is there.
func (g *Guest) runScript(ctx context.Context, script string, in io.Reader, out io.Writer) (int, error) {
	if in == nil {
		script = "exec </dev/null\n" + script
	}
	s, err := g.Open(ctx, script)
	if err != nil {
		return -1, err
	}
	defer s.Close()
	if in != nil {
		_, err := io.Copy(s, in)
		if err == nil {
			err = s.CloseWrite()
		}
		if err != nil {
			return -1, s.explainError(err)
		}
	}
	if _, err := io.Copy(out, s); err != nil {
		return -1, err
	}
	return s.Status(), nil
}

// Push copies the host's file to path in the guest, executable.
func (g *Guest) Push(ctx context.Context, file, path string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	var out strings.Builder
	script := fmt.Sprintf("cat >%[1]s && chmod 755 %[1]s", quoteWord(path))
	status, err := g.runScript(ctx, script, f, &out)
	if err == nil && status != 0 {
		err = fmt.Errorf("guest: %s", out.String())
	}
	return err
}

// quoteWord quotes s as one shell word.
func quoteWord(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
