package tickets

import (
	"fmt"
	"os/user"
	"strconv"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A User is a local user with the groups of a program.
type User struct {
	UID, GID uint32
	Groups   []uint32
}

// userOf returns the user of a credential of Kerberos. Other credentials need no
// context.
func userOf(c *rpcmsg.Cred) (User, bool) {
	switch c.Flavor {
	case rpcmsg.AuthKrb5, rpcmsg.AuthKrb5i, rpcmsg.AuthKrb5p:
		return User{UID: c.UID, GID: c.GID, Groups: c.GIDs}, true
	}
	return User{}, false
}

// name returns the user's name for words: that of the host's file of users, else
// the number.
func (u User) name() string {
	id := strconv.FormatUint(uint64(u.UID), 10)
	if found, err := user.LookupId(id); err == nil {
		return found.Username
	}
	return fmt.Sprintf("user %s", id)
}
