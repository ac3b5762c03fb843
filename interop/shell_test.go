//go:build interop

package interop

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A testShell is a persistent shell of the guest or of this host: files opened by
// one script stay open in the next.
type testShell struct {
	t     *testing.T
	in    io.Writer
	lines chan string
}

// shellEnd is the line that ends a script's output, with the exit status.
const shellEnd = "@end "

func guestShell(t *testing.T) *testShell {
	s, err := sharedGuest(t).Open(t.Context(), "exec sh 2>&1")
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return startShell(t, s, s)
}

func hostShell(t *testing.T) *testShell {
	in, out, _ := hostProgram(t, exec.Command("sh"))
	return startShell(t, in, out)
}

// hostProgram starts a program on this host, which is killed when the test
// ends.
func hostProgram(t *testing.T, cmd *exec.Cmd) (in io.WriteCloser, out io.Reader, p *Process) {
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = w, w
	p, err = StartProcess(cmd)
	w.Close()
	require.NoError(t, err)
	t.Cleanup(func() {
		p.Kill()
		r.Close()
	})
	return in, r, p
}

func startShell(t *testing.T, in io.Writer, out io.Reader) *testShell {
	s := &testShell{t: t, in: in, lines: make(chan string)}
	go func() {
		defer close(s.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			select {
			case s.lines <- lines.Text():
			case <-t.Context().Done():
				return
			}
		}
	}()
	return s
}

// runScript runs a script and returns its output and exit status.
func (s *testShell) runScript(script string) (out string, status int) {
	s.t.Helper()
	_, err := fmt.Fprintf(s.in, "%s\necho \"%s$?\"\n", script, shellEnd)
	require.NoError(s.t, err, script)
	late := time.After(execLimit)
	for {
		select {
		case line, ok := <-s.lines:
			require.True(s.t, ok, "the shell has ended in %s\n%s", script, out)
			if word, end := strings.CutPrefix(line, shellEnd); end {
				_, err := fmt.Sscan(word, &status)
				require.NoError(s.t, err, line)
				return out, status
			}
			out += line + "\n"
		case <-late:
			s.t.Fatalf("not done after %v: %s\n%s", execLimit, script, out)
		}
	}
}

// mustRun runs a script that must succeed.
func (s *testShell) mustRun(script string) string {
	s.t.Helper()
	out, status := s.runScript(script)
	require.Zero(s.t, status, "%s\n%s", script, out)
	return out
}

// mustFail runs a script that must fail with a certain message.
func (s *testShell) mustFail(with, script string) {
	s.t.Helper()
	out, status := s.runScript(script)
	require.NotZero(s.t, status, "%s\n%s", script, out)
	require.Contains(s.t, out, with, script)
}
