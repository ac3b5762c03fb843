package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// keyLen is the length of the file handle key in bytes.
const keyLen = 32

// handleKey returns the key that authenticates file handles, and creates it at the first
// start. The key must remain secret: anyone who knows it can forge handles for all objects.
func (s *stateDir) handleKey() ([keyLen]byte, error) {
	name := filepath.Join(s.dir, "handle.key")
	key, err := readKey(name)
	if errors.Is(err, fs.ErrNotExist) {
		key, err = s.makeKey(name)
		if err != nil {
			err = stateError(s.dir, err)
		}
	}
	return key, err
}

// readKey reads a key. It fails if another user could have read or written it.
func readKey(name string) (key [keyLen]byte, err error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return key, fmt.Errorf("cannot read the file handle key %s: %w", name, cli.Cause(err))
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return key, fmt.Errorf("file handle key %s: %w", name, err)
	}
	const remedy = "restore a backup or delete it; the daemon then creates a new key, and clients must remount"
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size != keyLen:
		return key, fmt.Errorf("%s is not a file handle key, which has %d bytes: %s", name, keyLen, remedy)
	case int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0:
		return key, fmt.Errorf("users other than this one (%d) may have read the file handle key %s (owner %d, mode %04o): if none has, make this user its owner and set mode 0600; otherwise delete it; the daemon then creates a new key, and clients must remount",
			os.Geteuid(), name, st.Uid, st.Mode&0o7777)
	}
	if _, err := io.ReadFull(f, key[:]); err != nil {
		return key, fmt.Errorf("cannot read the file handle key %s: %w", name, cli.Cause(err))
	}
	if key == ([keyLen]byte{}) {
		return key, fmt.Errorf("the file handle key %s is all zeros: %s", name, remedy)
	}
	return key, nil
}

// makeKey creates a key on stable storage.
func (s *stateDir) makeKey(name string) (key [keyLen]byte, err error) {
	rand.Read(key[:])
	return key, s.replaceFile(name, key[:])
}
