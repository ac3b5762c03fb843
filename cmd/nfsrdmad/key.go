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

// keyLen is the length of the key of file handles, in bytes.
const keyLen = 32

// handleKey returns the key that seals file handles, and makes it at the first
// start. The key must stay secret: its owner can make handles of all objects.
func (s *state) handleKey() ([keyLen]byte, error) {
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

// readKey reads a key. It fails if another user could have read or written the
// key.
func readKey(name string) (key [keyLen]byte, err error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return key, fmt.Errorf("the key of file handles %s cannot be read: %w", name, cli.Cause(err))
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return key, fmt.Errorf("the key of file handles %s: %w", name, err)
	}
	const remedy = "restore a copy, or remove it: then the daemon makes a new key, and clients must mount again"
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size != keyLen:
		return key, fmt.Errorf("%s is not a key of file handles, which has %d bytes: %s", name, keyLen, remedy)
	case int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0:
		return key, fmt.Errorf("users other than this one (%d) may have read the key of file handles %s (owner %d, mode %04o): if none has, make this user its owner and set mode 0600; if not, remove it: then the daemon makes a new key, and clients must mount again",
			os.Geteuid(), name, st.Uid, st.Mode&0o7777)
	}
	if _, err := io.ReadFull(f, key[:]); err != nil {
		return key, fmt.Errorf("the key of file handles %s cannot be read: %w", name, cli.Cause(err))
	}
	if key == ([keyLen]byte{}) {
		return key, fmt.Errorf("the key of file handles %s has only zeros: %s", name, remedy)
	}
	return key, nil
}

// makeKey makes a key on stable storage.
func (s *state) makeKey(name string) (key [keyLen]byte, err error) {
	rand.Read(key[:])
	return key, s.replace(name, key[:])
}
