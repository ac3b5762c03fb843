//go:build interop

package standby

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/interop"
)

// loadWord, as the first argument, makes the test program a load's process.
const loadWord = "load"

// A loadReply is the reply of a load's process to one command.
type loadReply struct {
	Gaps  map[string]time.Duration // by the place's base name
	Count int
	Err   string
}

// runLoadCommand runs a load's process, and exits. In other processes it returns.
func runLoadCommand() {
	if len(os.Args) < 3 || os.Args[1] != loadWord {
		return
	}
	if err := serveLoad(os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serveLoad runs a load on each place, and executes commands from standard input. A place
// is a directory, or a transport of the Go client.
func serveLoad(filesPerPlace string, places []string) error {
	n, err := strconv.Atoi(filesPerPlace)
	if err != nil {
		return err
	}
	l := new(load)
	for _, place := range places {
		base := filepath.Base(place)
		var names []string
		for i := range n {
			names = append(names, fmt.Sprint(base, "-", i))
		}
		create := createByClient
		if filepath.IsAbs(place) {
			create = createInMount
		}
		files, err := create(place, names)
		if err != nil {
			return fmt.Errorf("%s: %w", place, err)
		}
		l.start(base, files)
	}
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var command []string
		if err := in.Decode(&command); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := out.Encode(l.execute(command)); err != nil {
			return err
		}
	}
}

// execute executes a command of a loadProcess.
func (l *load) execute(command []string) (r loadReply) {
	var err error
	switch command[0] {
	case "reset":
		l.resetGaps()
	case "progress":
		r.Gaps, err = l.awaitProgress()
	case "check":
		r.Count, err = l.checkBacking(command[1])
	case "end":
		l.end()
	}
	if err = errors.Join(err, l.failure()); err != nil {
		r.Err = err.Error()
	}
	return r
}

// A loadProcess is a load in a process of its own: a process that has files of a mount open
// may wait for the mount whenever it starts another one.
type loadProcess struct {
	*interop.Process
	t   *testing.T
	in  *json.Encoder
	out *json.Decoder
}

// startLoad starts writers and readers of files in each place.
func startLoad(t *testing.T, filesPerPlace int, places ...string) *loadProcess {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, append([]string{loadWord, strconv.Itoa(filesPerPlace)}, places...)...)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	p, err := interop.StartProcess(cmd)
	require.NoError(t, err)
	t.Cleanup(func() { p.Signal(unix.SIGKILL) }) // it ends at the latest with the mounts
	return &loadProcess{p, t, json.NewEncoder(stdin), json.NewDecoder(stdout)}
}

// execute lets the process execute a command.
func (p *loadProcess) execute(command ...string) (r loadReply) {
	p.t.Helper()
	require.NoError(p.t, p.in.Encode(command))
	require.NoError(p.t, p.out.Decode(&r), "the load's process has ended")
	require.Empty(p.t, r.Err, "%s", command)
	return r
}

func (p *loadProcess) resetGaps() { p.execute("reset") }

// awaitProgress is load.awaitProgress.
func (p *loadProcess) awaitProgress() (longest map[string]time.Duration) {
	return p.execute("progress").Gaps
}

// checkBacking is load.checkBacking.
func (p *loadProcess) checkBacking(dir string) (count int) { return p.execute("check", dir).Count }

func (p *loadProcess) end() { p.execute("end") }
