package billy

import (
	"syscall"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// checkNewName is vfs.CheckName for an object to be made: "." and ".." are there.
func checkNewName(name string) error {
	if vfs.IsDots(name) {
		return syscall.EEXIST
	}
	return vfs.CheckName(name, maxName)
}
