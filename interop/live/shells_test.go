//go:build interop

package live

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/interop"
)

// shellLimit is how long a shell may take to start, or to complete a word.
const shellLimit = time.Minute

// A terminalShell is one at a terminal, as a person has it.
type terminalShell struct {
	keys io.WriteCloser

	mu   sync.Mutex
	text strings.Builder // on the terminal, since the last line
}

// startShell starts a shell at a terminal of its own, which script(1) makes.
func startShell(t *testing.T, path string, command ...string) *terminalShell {
	t.Helper()
	keys, in, err := os.Pipe()
	require.NoError(t, err)
	out, text, err := os.Pipe()
	require.NoError(t, err)
	cmd := exec.Command("script", "-qfec", strings.Join(command, " "), "/dev/null")
	cmd.Env = append(os.Environ(), "PATH="+path+":"+os.Getenv("PATH"), "TERM=xterm", "HOME="+t.TempDir())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = keys, text, text
	p, err := interop.StartProcess(cmd)
	require.NoError(t, err)
	keys.Close()
	text.Close()
	s := &terminalShell{keys: in}
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = io.Copy(s, out) })
	t.Cleanup(func() {
		in.Close()
		p.Kill()
		out.Close()
		reading.Wait()
	})
	return s
}

func (s *terminalShell) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// controls are what moves the cursor and sets colours.
var controls = regexp.MustCompile("\r|\x1b(\\[[0-9;?]*[A-Za-z]|[()][A-Z0-9]|[=>]|\\][^\a]*\a)")

// typeKeys types keys, and waits until the terminal shows what is wanted.
func (s *terminalShell) typeKeys(t *testing.T, keys, want string) {
	t.Helper()
	s.mu.Lock()
	s.text.Reset()
	s.mu.Unlock()
	_, err := io.WriteString(s.keys, keys)
	require.NoError(t, err)
	var shown string
	shows := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		shown = controls.ReplaceAllString(s.text.String(), "")
		return strings.Contains(shown, want)
	}
	for end := time.Now().Add(shellLimit); !shows(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			require.Fail(t, "not shown", "%q shows no %q, but %q", keys, want, shown)
		}
	}
}

// TestShells completes words in real shells, with the scripts that the packages bring.
func TestShells(t *testing.T) {
	if os.Getenv("INTEROP_SOAK") == "" {
		t.Skip("needs bash-completion, zsh and fish (scripts/setup soak): INTEROP_SOAK=1 for this test")
	}
	d := startDaemon(t)
	mountrdma := filepath.Join(d.dir, "mountrdma")
	require.NoError(t, exec.Command(mountrdma, "mkdir", d.fileURL("photos")).Run())
	host, port, err := net.SplitHostPort(d.rdma)
	require.NoError(t, err)
	for name, s := range map[string]struct {
		command []string
		setup   string
	}{
		"bash": {[]string{"bash", "--noprofile", "--norc", "-i"}, ". /usr/share/bash-completion/bash_completion; for p in mountrdma nfsrdmad; do . <($p completion bash); done"},
		"zsh":  {[]string{"zsh", "-f", "-i"}, "autoload -U compinit; compinit -u; for p in mountrdma nfsrdmad; do . <($p completion zsh); done"},
		"fish": {[]string{"fish", "--no-config", "-i"}, "for p in mountrdma nfsrdmad; $p completion fish | source; end"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := exec.LookPath(name)
			require.NoError(t, err, "scripts/setup soak installs it")
			sh := startShell(t, d.dir, s.command...)
			sh.typeKeys(t, s.setup+"; echo set''tled\n", "\nsettled")
			const forget = "\x15" // the line
			for _, tt := range []struct{ keys, want string }{
				{"mountrdma ls nfs://" + d.rdma + "/x/ph\t", "nfs://" + d.rdma + "/x/photos/"},
				{"mountrdma -o port=" + port + " " + host + ":/\t", host + ":/x"},
				{"mountrdma -o ro,tim\t", "ro,timeo="},
				{"mountrdma -o ro,timeo=30,nola\t", "ro,timeo=30,nolazytime"},
				{"mountrdma doctor " + host + ":/x -o ro,sec=krb5p,nconn\t", "ro,sec=krb5p,nconnect="},
				{"mountrdma umo\t", "umount"},
				{"nfsrdmad exports rem\t", "remove"},
			} {
				sh.typeKeys(t, tt.keys, tt.want)
				sh.typeKeys(t, forget+"echo for''gotten\n", "\nforgotten")
			}
		})
	}
}
