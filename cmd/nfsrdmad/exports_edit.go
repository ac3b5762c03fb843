package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/stablefile"
)

// edit changes the exports file of the daemon at a socket, and has the daemon read it. If
// the daemon does not apply the new file, the old one is put back. If no daemon runs, edit
// changes the file alone, and says how to start one.
func (e *exportsEdit) edit(ctx context.Context, w io.Writer, change func(*exportsFile) error) error {
	f := &exportsFile{}
	err := f.find(ctx, e)
	if err != nil {
		return err
	}
	lock, err := lockDir(ctx, filepath.Dir(f.name))
	if err != nil {
		return err
	}
	defer lock.Close()
	old, err := f.read()
	if err != nil {
		return err
	}
	before := f.text
	if err := change(f); err != nil {
		return err
	}
	if err := stablefile.ReplaceAs(f.name, f.text, old, (*os.File).Sync); err != nil {
		return fmt.Errorf("exports file %s cannot be written: %w", f.name, cli.Cause(err))
	}
	var said bytes.Buffer // w may fail, which is not the daemon's error
	err = order(ctx, e.control, "exports/reload?sum="+sum(f.text), &said)
	if _, ok := errors.AsType[noDaemon](err); ok && f.alone {
		_, err := fmt.Fprintf(w, "%s is written; no nfsrdmad answers at %s, so it counts at the next start: %s\n", f.name, e.control, e.start())
		return err
	}
	if err != nil {
		return errors.Join(err, f.putBack(ctx, e.control, before, old, err))
	}
	_, err = w.Write(said.Bytes())
	return err
}

// find sets the name of the file: the daemon has it, or the flag --exports if no daemon
// runs. A daemon that starts later finds the change in the file.
func (f *exportsFile) find(ctx context.Context, e *exportsEdit) (err error) {
	f.name, err = servedFile(ctx, e.control)
	if _, f.alone = errors.AsType[noDaemon](err); f.alone {
		f.name, err = filepath.Abs(e.file)
	}
	if err != nil {
		return err
	}
	if _, err := os.Lstat(f.name); f.alone && errors.Is(err, os.ErrNotExist) {
		return nil // it will be made
	}
	// The name may be a link, as to a file of another package.
	f.name, err = filepath.EvalSymlinks(f.name)
	return err
}

// read reads the file. The result is nil if the file does not exist and may be made.
func (f *exportsFile) read() (os.FileInfo, error) {
	old, err := os.Stat(f.name)
	if err == nil {
		f.text, err = os.ReadFile(f.name)
	} else if f.alone && errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("exports file %s: %w", f.name, cli.Cause(err))
	}
	return old, nil
}

// putBack writes the text before a change again, or removes the file if there was none,
// unless others have changed the file since. Unless cause is a refusal, the daemon may have read the change or may yet do so,
// and is told to read the file again.
func (f *exportsFile) putBack(ctx context.Context, control string, before []byte, old os.FileInfo, cause error) error {
	if now, err := os.ReadFile(f.name); err == nil && !bytes.Equal(now, f.text) {
		return fmt.Errorf("others have changed the exports file %s meanwhile: it stays as it is", f.name)
	}
	again := func() error { return stablefile.ReplaceAs(f.name, before, old, (*os.File).Sync) }
	if old == nil {
		again = func() error { return os.Remove(f.name) }
	}
	if err := again(); err != nil {
		return fmt.Errorf("exports file %s has the change still, for it cannot be written again (%w): correct it", f.name, cli.Cause(err))
	}
	if _, ok := errors.AsType[refusal](cause); ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), againTime)
	defer cancel()
	err := order(ctx, control, "exports/reload", io.Discard)
	if _, gone := errors.AsType[noDaemon](err); err != nil && !gone {
		return fmt.Errorf("exports file %s is as it was, but the daemon may have the change: see nfsrdmad exports list, and have it read the file with nfsrdmad reload", f.name)
	}
	return nil
}

// againTime is how long putBack waits for a daemon that did not answer before. The
// daemon keeps the order for later.
const againTime = 5 * time.Second

// sum returns what identifies a text.
func sum(text []byte) string {
	s := sha256.Sum256(text)
	return hex.EncodeToString(s[:])
}

// servedFile returns the exports file of the daemon at a socket.
func servedFile(ctx context.Context, control string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	body, err := ask(ctx, control, http.MethodGet, "exports")
	if err != nil {
		return "", err
	}
	defer body.Close()
	var d exportsDoc
	if err := json.NewDecoder(body).Decode(&d); err != nil {
		return "", fmt.Errorf("the program at %s is not nfsrdmad: %w", control, err)
	}
	if d.File == "" {
		return "", errors.New("the daemon has its exports from its arguments, and a change would be lost at its end: start it with nfsrdmad serve --exports FILE")
	}
	return d.File, nil
}

// lockDir locks a directory in which a file is replaced, until the result is closed. A
// lock of the file itself would be of no use once the file is another. Whoever may read
// the directory can lock it: the wait has an end.
func lockDir(ctx context.Context, dir string) (*os.File, error) {
	ctx, cancel := context.WithTimeout(ctx, orderTime)
	defer cancel()
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("directory %s of the exports file (%w): create it, or name another file", dir, cli.Cause(err))
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			break
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("another program has locked the directory %s: lslocks names it", dir)
		case <-time.After(10 * time.Millisecond):
		}
	}
	f.Close()
	return nil, fmt.Errorf("directory %s cannot be locked: %w", dir, err)
}
