package nlmclient

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

// An ownerList lists the owners and files for which this process has sent LOCK
// calls, in a file that survives the process. A line in the file is
//
//	lock SVID UID GID HANDLE OWNER NAME     HANDLE, OWNER and NAME in hexadecimal
//
// and its first line is "state N". N is this client's state number: odd, and
// two more than the last time. The list is not synced to stable storage, which
// would take longer than the locks: after a power failure, lines may be
// missing. A nil *ownerList keeps no list.
type ownerList struct {
	file        *os.File
	log         *slog.Logger
	stateNumber int32 // NSM state number

	mu          sync.Mutex
	lines       map[string]bool // lines in the file
	staleLines  int             // number of lines in the file that are obsolete
	writeFailed bool            // a write has failed
}

// An ownerRecord is an earlier process's owner and file.
type ownerRecord struct {
	line     string
	svid     int32
	cred     rpcmsg.Cred
	handle   []byte
	oh, name string
}

// openOwnerList opens the file, and returns an earlier process's records. It
// returns nil if path is empty, or if another process uses the file.
func openOwnerList(path string, log *slog.Logger) (l *ownerList, old []ownerRecord) {
	if path == "" {
		return nil, nil
	}
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	}
	if err == nil {
		if err = lockListFile(f); err != nil {
			f.Close()
		}
	}
	if err != nil {
		log.Warn("cannot record lock owners; their locks will remain on the server if this process is killed", "file", path, "err", err)
		return nil, nil
	}
	l = &ownerList{file: f, log: log, lines: make(map[string]bool), stateNumber: 1}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var state int32
		if _, err := fmt.Sscanf(lines.Text(), "state %d", &state); err == nil {
			l.stateNumber = (state+2)&(1<<31-1) | 1
		} else if r, ok := parseRecord(lines.Text()); ok {
			old = append(old, r)
			l.lines[lines.Text()] = true
		}
	}
	l.rewriteLocked()
	return l, old
}

// lockListFile locks a list against other processes. The list must be a regular
// file owned by this user: another user's list could release any locks, and
// reading a FIFO never ends.
func lockListFile(f *os.File) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if owner := st.Sys().(*syscall.Stat_t).Uid; !st.Mode().IsRegular() || int(owner) != os.Geteuid() {
		return fmt.Errorf("not a regular file owned by user %d", os.Geteuid())
	}
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
}

func parseRecord(line string) (r ownerRecord, ok bool) {
	var oh, name []byte
	r.line = line
	r.cred.Flavor = rpcmsg.AuthSys
	n, err := fmt.Sscanf(line, "lock %d %d %d %x %x %x", &r.svid, &r.cred.UID, &r.cred.GID, &r.handle, &oh, &name)
	r.oh, r.name = string(oh), string(name)
	return r, n == 6 && err == nil
}

// nsmState returns this client's NSM state number.
func (l *ownerList) nsmState() int32 {
	if l == nil {
		return 1
	}
	return l.stateNumber
}

// addHolder adds h's owner and file to the list. The caller must hold h.sem.
func (l *ownerList) addHolder(h *fileOwner, cred *rpcmsg.Cred) {
	if l == nil || h.listLine != "" {
		return
	}
	_, name, _ := bytes.Cut(h.identity.oh, []byte("@"))
	line := fmt.Sprintf("lock %d %d %d %x %x %x", h.identity.svid, cred.UID, cred.GID, h.file.handle, h.identity.oh, name)
	l.mu.Lock()
	defer l.mu.Unlock()
	h.listLine = line
	l.lines[line] = true
	_, err := l.file.WriteString(line + "\n")
	l.warnOnce(err)
}

// removeLine removes a line from the list. The file is rewritten only when most
// of its lines are obsolete.
func (l *ownerList) removeLine(line string) {
	if l == nil || line == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.lines, line)
	if l.staleLines++; l.staleLines > max(maxStaleLines, len(l.lines)) {
		l.rewriteLocked()
	}
}

// removeRecords removes an earlier process's records from the list.
func (l *ownerList) removeRecords(old []ownerRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range old {
		delete(l.lines, r.line)
	}
	l.rewriteLocked()
}

// closeList closes the file. released says that the server holds no lock for
// this process.
func (l *ownerList) closeList(released bool) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if released && l.staleLines > 0 {
		l.rewriteLocked()
	}
	_ = l.file.Close()
}

func (l *ownerList) warnOnce(err error) {
	if err != nil && !l.writeFailed {
		l.writeFailed = true
		l.log.Warn("cannot record lock owners; their locks will remain on the server if this process is killed", "err", err)
	}
}

// rewriteLocked rewrites the file.
func (l *ownerList) rewriteLocked() {
	var b bytes.Buffer
	fmt.Fprintf(&b, "state %d\n", l.stateNumber)
	for line := range l.lines {
		b.WriteString(line + "\n")
	}
	l.staleLines = 0
	err := l.file.Truncate(0)
	if err == nil {
		_, err = l.file.Write(b.Bytes())
	}
	l.warnOnce(err)
}
