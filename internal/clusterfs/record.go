package clusterfs

import (
	"crypto/sha256"
	"encoding/json"
	"os"
	"sync"
	"syscall"
	"time"
)

// A Record is an executed or rejected operation.
type Record struct {
	Time   time.Time // after the operation
	Host   string
	Op     string        // such as "write", or "rejected", or "given up"
	Path   string        // of the object below FileSystem.Backing, such as "/dir/file"
	Target string        // the new path of a rename or link
	Offset int64         // where a read or write begins
	Length int           // how much is read or written
	Hash   [8]byte       // the first bytes of the written data's SHA-256
	Errno  syscall.Errno // 0 for success
}

// IsChange reports whether the operation has changed data or names.
func (r *Record) IsChange() bool {
	switch r.Op {
	case "write", "setattr", "create", "mknod", "mkdir", "symlink", "link", "unlink", "rmdir", "rename", "fallocate":
		return r.Errno == 0
	}
	return false
}

type recordList struct {
	mu   sync.Mutex
	list []Record
}

func (l *recordList) add(r Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Time = time.Now()
	l.list = append(l.list, r)
}

func (l *recordList) write(file string) error {
	l.mu.Lock()
	b, err := json.Marshal(l.list)
	l.mu.Unlock()
	if err != nil {
		return err
	}
	return os.WriteFile(file, b, 0o600)
}

// Turns returns the hosts that have made the changes that match accepts, in the order
// of the changes. A host that has made several in succession is named once, so a host
// that is named twice has made a change after another host.
func (f *FileSystem) Turns(match func(Record) bool) (hosts []string) {
	for _, r := range f.Records() {
		if r.IsChange() && match(r) && (len(hosts) == 0 || hosts[len(hosts)-1] != r.Host) {
			hosts = append(hosts, r.Host)
		}
	}
	return hosts
}

func shortHash(data []byte) (h [8]byte) {
	sum := sha256.Sum256(data)
	copy(h[:], sum[:])
	return h
}
