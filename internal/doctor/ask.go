package doctor

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"time"
)

// defaultProbeTimeout is how long a file system may take to respond, even on a busy host.
const defaultProbeTimeout = 5 * time.Second

// errNoAnswer reports a file system that does not respond.
var errNoAnswer = errors.New("does not respond")

// probeFileSystem checks whether the file system at a path responds, and returns the error
// text if statfs fails. It runs stat in another process, because a process that waits for a
// file system may be impossible to kill.
func probeFileSystem(ctx context.Context, path string, timeout time.Duration) (refused string, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var errs bytes.Buffer
	cmd := exec.Command("stat", "-f", "--", path)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		return "", err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if err == nil {
			return "", nil
		}
		words := strings.TrimSpace(errs.String()) // stat: ... '/mnt': Stale file handle
		return strings.TrimSpace(words[strings.LastIndex(words, ": ")+1:]), nil
	case <-ctx.Done():
		_ = cmd.Process.Kill()
		return "", errNoAnswer
	}
}
