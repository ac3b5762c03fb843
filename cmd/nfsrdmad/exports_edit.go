package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/internal/report"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/stablefile"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
)

// editFile changes an exports file of the daemon at a socket, and makes the daemon reload it.
// If the daemon does not apply the new file, editFile restores the old one. If no daemon runs,
// it only changes the file, and prints how to start a daemon.
func (e *exportsEdit) editFile(ctx context.Context, w io.Writer, change func(*exportsFile) error) error {
	f := &exportsFile{}
	main, err := f.findFile(ctx, e)
	if err != nil {
		return err
	}
	lock, err := lockDir(ctx, filepath.Dir(main))
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := f.loadSources(main); err != nil {
		return err
	}
	if err := change(f); err != nil {
		return err
	}
	edited := &f.sources[f.edited]
	before := edited.Text
	var old os.FileInfo
	// The name may be a symbolic link, for instance to another package's file.
	if f.name, err = filepath.EvalSymlinks(edited.Name); err == nil {
		old, err = os.Stat(f.name)
	} else if f.offline && errors.Is(err, os.ErrNotExist) {
		f.name, err = edited.Name, nil // it is created
	}
	if err != nil {
		return fmt.Errorf("exports file %s: %w", edited.Name, cli.Cause(err))
	}
	if err := stablefile.ReplaceAs(f.name, f.text, old, (*os.File).Sync); err != nil {
		return fmt.Errorf("exports file %s cannot be written: %w", f.name, cli.Cause(err))
	}
	edited.Text = f.text
	var said bytes.Buffer // w may fail, which is no error of the daemon
	err = sendOrder(ctx, e.control, "exports/reload?sum="+sumSources(f.sources), &said)
	if _, ok := errors.AsType[noDaemonError](err); ok && f.offline {
		_, err := fmt.Fprintf(w, "%s was written; no nfsrdmad responds at %s, so the change takes effect at the next start: %s\n", f.name, e.control, e.startCommand())
		return err
	}
	if err != nil {
		return errors.Join(err, f.restoreText(ctx, e.control, before, old, err))
	}
	_, err = w.Write(said.Bytes())
	return err
}

// findFile returns the name of the file to which exports are added: the one that the daemon
// reports, or that of the flag --exports if no daemon runs. A daemon that starts later finds the
// change in the file.
func (f *exportsFile) findFile(ctx context.Context, e *exportsEdit) (name string, err error) {
	name, f.standby, err = queryExportsFile(ctx, e.control)
	if _, f.offline = errors.AsType[noDaemonError](err); f.offline {
		return filepath.Abs(e.file)
	}
	return name, err
}

// loadSources reads the exports files. If no daemon runs, the first may be missing.
func (f *exportsFile) loadSources(name string) (err error) {
	f.sources, err = readSources(name)
	if f.offline && f.sources == nil && errors.Is(err, os.ErrNotExist) {
		f.sources, err = []exports.Source{{Name: name}}, nil
	}
	return err
}

// restoreText restores the text from before a change, or removes the file if there was none,
// unless others have changed the file since. Unless cause is a refusedError, the daemon may
// have read the change or may still do so, and is told to read the file again.
func (f *exportsFile) restoreText(ctx context.Context, control string, before []byte, old os.FileInfo, cause error) error {
	if now, err := os.ReadFile(f.name); err == nil && !bytes.Equal(now, f.text) {
		return fmt.Errorf("another program has changed the exports file %s in the meantime: it is left as it is", f.name)
	}
	again := func() error { return stablefile.ReplaceAs(f.name, before, old, (*os.File).Sync) }
	if old == nil {
		again = func() error { return os.Remove(f.name) }
	}
	if err := again(); err != nil {
		return fmt.Errorf("exports file %s still has the change, because it cannot be restored (%w): correct it", f.name, cli.Cause(err))
	}
	if _, ok := errors.AsType[refusedError](cause); ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reloadRetryTimeout)
	defer cancel()
	err := sendOrder(ctx, control, "exports/reload", io.Discard)
	if _, gone := errors.AsType[noDaemonError](err); err != nil && !gone {
		return fmt.Errorf("exports file %s was restored, but the daemon may have applied the change: see nfsrdmad exports list, and run nfsrdmad reload", f.name)
	}
	return nil
}

// reloadRetryTimeout is how long restoreText waits for a daemon that did not respond before.
// The daemon keeps the order and executes it later.
const reloadRetryTimeout = 5 * time.Second

// queryExportsFile queries the name of the exports file from the daemon at a socket, and whether the
// daemon is one of several hosts (--standby).
func queryExportsFile(ctx context.Context, control string) (name string, standby bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	body, err := requestDaemon(ctx, control, http.MethodGet, "exports")
	if err != nil {
		return "", false, err
	}
	defer body.Close()
	var d report.ExportList
	if err := json.NewDecoder(body).Decode(&d); err != nil {
		return "", false, fmt.Errorf("the program at %s is not nfsrdmad: %w", control, err)
	}
	if d.File == "" {
		return "", false, errors.New("the daemon's exports are in its arguments, and a change would be lost when it exits: start it with nfsrdmad serve --exports FILE")
	}
	return d.File, d.Standby, nil
}

// lockDir locks a directory in which a file is replaced, until the result is closed. A lock
// on the file itself would be useless once the file is replaced. Anyone who may read the
// directory can lock it, so the wait is bounded.
func lockDir(ctx context.Context, dir string) (*os.File, error) {
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("directory %s of the exports file (%w): create it, or use another file", dir, cli.Cause(err))
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
			return nil, fmt.Errorf("another program has locked the directory %s: lslocks shows which one", dir)
		case <-time.After(10 * time.Millisecond):
		}
	}
	f.Close()
	return nil, fmt.Errorf("directory %s cannot be locked: %w", dir, err)
}
