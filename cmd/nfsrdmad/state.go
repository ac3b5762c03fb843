package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/stablefile"
	"github.com/nfsrdma/nfsrdma/internal/tenure"
)

// defaultState returns the default directory for data that survive a restart.
func defaultState() string {
	if os.Geteuid() == 0 {
		return "/var/lib/nfsrdmad"
	}
	if d := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "nfsrdmad")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "" // openState then returns an error
	}
	return filepath.Join(home, ".local", "state", "nfsrdmad")
}

// stateDir is a state directory, locked against other daemons.
type stateDir struct {
	dir    string
	lock   *os.File
	tenure *tenure.Tenure // nil: no end
}

// clientsFile is the name of the journal of NFSv4 clients.
const clientsFile = "nfs4-clients"

// openState creates the directory if it does not exist, and locks it.
func openState(dir string) (*stateDir, error) {
	if dir == "" {
		return nil, errors.New("no home directory for the state directory: name one with --state")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, stateError(dir, err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, stateError(dir, err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("another nfsrdmad uses the state directory %s: stop that daemon, or name another directory with --state", dir)
		}
		return nil, stateError(dir, err)
	}
	s := &stateDir{dir: dir, lock: lock}
	if err := s.checkLayout(); err != nil {
		lock.Close()
		return nil, err
	}
	return s, nil
}

// stateLayout is the version of the layout of a state directory, which the file layout has. It
// changes when an older daemon would lose or misread state.
const stateLayout = 1

// checkLayout checks that no newer daemon has written the directory, and records the layout.
func (s *stateDir) checkLayout() error {
	name := filepath.Join(s.dir, "layout")
	text, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		if err = s.replaceFile(name, fmt.Appendln(nil, stateLayout)); err != nil {
			return stateError(s.dir, err)
		}
		return nil
	}
	if err != nil {
		return stateError(s.dir, err)
	}
	switch n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32); {
	case err != nil || n == 0:
		return fmt.Errorf("%s is not the version of a layout: restore a backup of the directory, or write %d into the file if no newer nfsrdmad has used the directory", name, stateLayout)
	case n > stateLayout:
		return fmt.Errorf("a newer nfsrdmad has written the state directory %s (layout %d, and this one has %d): install that version again, or restore a backup of the directory from before the upgrade; clients lose their handles, opens and locks with an empty one",
			s.dir, n, stateLayout)
	}
	return nil
}

// exportDir returns the directory for one export's state. Exports whose handles have another
// meaning (because of fsid or subtree_check) have separate directories.
func (s *stateDir) exportDir(e *exportSpec) string {
	kind, name := "exports", url.PathEscape(e.name)
	if e.shareKey().checked {
		kind = "exports-checked"
	}
	if e.fsid.Set() {
		name = "fsid=" + e.fsid.String() // no conflict: an export name begins with a slash, which becomes %2F
	}
	return filepath.Join(s.dir, kind, name)
}

// checkOutside checks that clients of dir cannot reach the state directory. A state directory
// on another device is outside, because an export does not contain other mounts.
func (s *stateDir) checkOutside(dir string) error {
	exported, device, err := resolveDir(dir)
	if err != nil {
		return err
	}
	own, ownDevice, err := resolveDir(s.dir)
	if err != nil || device != ownDevice {
		return err
	}
	root, err := os.Stat(exported)
	if err != nil {
		return err
	}
	for ; ; own = filepath.Dir(own) { // by identity, because dir may be a bind mount
		if above, err := os.Stat(own); err != nil {
			return err
		} else if os.SameFile(above, root) {
			break
		}
		if own == "/" {
			return nil
		}
	}
	return fmt.Errorf("the state directory %s is inside %s, and %w: name another with --state", s.dir, dir, errReachable)
}

var errReachable = errors.New("clients could reach it")

// resolveDir returns the real path and the device of a directory.
func resolveDir(dir string) (path string, device uint64, err error) {
	if path, err = filepath.Abs(dir); err != nil {
		return "", 0, err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", 0, err
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return "", 0, fmt.Errorf("%s: %w", path, err)
	}
	return path, st.Dev, nil
}

// replaceFile replaces a file in the directory, on stable storage. After a crash of the daemon
// or the machine, the file has either its old content or all of b. The lock guarantees that no
// other daemon writes it, and the tenure that none on another host does.
func (s *stateDir) replaceFile(name string, b []byte) error {
	if err := s.tenure.Check(); err != nil {
		return err
	}
	return stablefile.Replace(name, b, func(f *os.File) error {
		return errors.Join(f.Sync(), s.tenure.Check()) // the second one precedes the rename
	})
}

// Close unlocks the directory, so that another daemon can use it.
func (s *stateDir) Close() error { return s.lock.Close() }

// stateError adds a remedy to err. Another state directory is no remedy if this one was used
// before: clients' file handles are valid only with its key.
func stateError(dir string, err error) error {
	remedy := "name a writable one with --state"
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		remedy = "free some space there"
	case errors.Is(err, unix.EIO), errors.Is(err, unix.EUCLEAN):
		remedy = "check its disk"
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		remedy = "raise the open-files limit (ulimit -n)"
	case errors.Is(err, unix.EROFS), errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		remedy = "make it writable, or name another with --state if it was never used"
	}
	return fmt.Errorf("state directory %s cannot be used (%w): %s", dir, cli.Cause(err), remedy)
}
