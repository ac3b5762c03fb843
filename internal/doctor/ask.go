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

// patience is how long a file system may take to answer, also on a busy host.
const patience = 5 * time.Second

// errSilent reports a file system that does not answer.
var errSilent = errors.New("does not answer")

// ask sees whether the file system at a path answers, and returns the reason that it gave if
// it refused to. Another process asks, because one that waits for a file system may not be
// able to end.
func ask(ctx context.Context, path string, patience time.Duration) (refused string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
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
		return "", errSilent
	}
}
