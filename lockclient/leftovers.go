package lockclient

import (
	"bufio"
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// leftovers is the list of the owners and files for which this process has made
// LOCK calls, in a file that survives the process. A line of the file is
//
//	lock SVID UID GID HANDLE OWNER NAME     in hexadecimal from HANDLE on
//
// and its first line is "state N". N is the state number of this client: odd, and
// two more than the last time. The list is not put on stable storage, which would
// take longer than the locks: after a failure of the host's power, it may be
// shorter than it was. A nil *leftovers keeps no list.
type leftovers struct {
	f   *os.File
	log *slog.Logger
	now int32 // state

	mu    sync.Mutex
	known map[string]bool // lines in the file
	off   int             // lines of the file that are not known any more
	bad   bool            // a write has failed
}

// A record is an owner and a file of an earlier process.
type record struct {
	line     string
	svid     int32
	cred     rpcmsg.Cred
	handle   []byte
	oh, name string
}

// openLeftovers opens the file, and returns the records of an earlier process. It
// returns nil if path is empty, or another process uses the file.
func openLeftovers(path string, log *slog.Logger) (l *leftovers, old []record) {
	if path == "" {
		return nil, nil
	}
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	}
	if err == nil {
		if err = claimFile(f); err != nil {
			f.Close()
		}
	}
	if err != nil {
		log.Warn("locks will remain at the server if this process is killed", "file", path, "err", err)
		return nil, nil
	}
	l = &leftovers{f: f, log: log, known: make(map[string]bool), now: 1}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var state int32
		if _, err := fmt.Sscanf(lines.Text(), "state %d", &state); err == nil {
			l.now = (state+2)&(1<<31-1) | 1
		} else if r, ok := parseRecord(lines.Text()); ok {
			old = append(old, r)
			l.known[lines.Text()] = true
		}
	}
	l.rewriteLocked()
	return l, old
}

// claimFile keeps other processes from a list. It must be a file of this user: a list
// of another user would unlock what that user likes, and the end of a FIFO never comes.
func claimFile(f *os.File) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if owner := st.Sys().(*syscall.Stat_t).Uid; !st.Mode().IsRegular() || int(owner) != os.Geteuid() {
		return fmt.Errorf("not a file of user %d", os.Geteuid())
	}
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
}

func parseRecord(line string) (r record, ok bool) {
	var oh, name []byte
	r.line = line
	r.cred.Flavor = rpcmsg.AuthSys
	n, err := fmt.Sscanf(line, "lock %d %d %d %x %x %x", &r.svid, &r.cred.UID, &r.cred.GID, &r.handle, &oh, &name)
	r.oh, r.name = string(oh), string(name)
	return r, n == 6 && err == nil
}

// state returns the state number.
func (l *leftovers) state() int32 {
	if l == nil {
		return 1
	}
	return l.now
}

// add lists the owner and file of h. The caller has the turn.
func (l *leftovers) add(h *holder, cred *rpcmsg.Cred) {
	if l == nil || h.line != "" {
		return
	}
	_, name, _ := bytes.Cut(h.id.oh, []byte("@"))
	line := fmt.Sprintf("lock %d %d %d %x %x %x", h.id.svid, cred.UID, cred.GID, h.file.handle, h.id.oh, name)
	l.mu.Lock()
	defer l.mu.Unlock()
	h.line = line
	l.known[line] = true
	_, err := l.f.WriteString(line + "\n")
	l.complain(err)
}

// remove takes a line off the list. The file is written anew only once most of it
// is off the list.
func (l *leftovers) remove(line string) {
	if l == nil || line == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, line)
	if l.off++; l.off > max(mostOff, len(l.known)) {
		l.rewriteLocked()
	}
}

// drop takes the records of an earlier process off the list.
func (l *leftovers) drop(old []record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range old {
		delete(l.known, r.line)
	}
	l.rewriteLocked()
}

// close ends the use of the file. released says that the server has no lock of
// this process.
func (l *leftovers) close(released bool) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if released && l.off > 0 {
		l.rewriteLocked()
	}
	_ = l.f.Close()
}

func (l *leftovers) complain(err error) {
	if err != nil && !l.bad {
		l.bad = true
		l.log.Warn("locks will remain at the server if this process is killed", "err", err)
	}
}

// rewriteLocked writes the file anew.
func (l *leftovers) rewriteLocked() {
	var b bytes.Buffer
	fmt.Fprintf(&b, "state %d\n", l.now)
	for line := range l.known {
		b.WriteString(line + "\n")
	}
	l.off = 0
	err := l.f.Truncate(0)
	if err == nil {
		_, err = l.f.Write(b.Bytes())
	}
	l.complain(err)
}
