package posix

import (
	"encoding/binary"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// aclCases are not in the suite, because mountrdma neither shows nor sets access
// control lists. TestDefaultList in package fusefs compares objects made in a
// directory with a default list.
var aclCases = []Case{
	{"acl-set", anyone, aclSet},
	{"acl-plain", anyone, aclPlain},
	{"acl-inherited", anyone, aclInherited},
	{"acl-wrong", anyone, aclWrong},
	{"acl-long", anyone, aclLong},
	{"acl-rights", root, aclRights},
	{"acl-by-user", root, aclByUser},
}

// The extended attributes that hold lists.
const (
	aclAccess  = "system.posix_acl_access"
	aclDefault = "system.posix_acl_default"
)

// An ace is a list entry, with the numbers in Linux's attribute.
type ace struct {
	tag  uint16
	perm uint16
	id   uint32
}

const (
	aceOwner      = 0x01
	aceUser       = 0x02
	aceGroup      = 0x04
	aceNamedGroup = 0x08
	aceMask       = 0x10
	aceOther      = 0x20

	aceNoID = 1<<32 - 1
)

// shared is a list that lets otherUser and otherGroup read.
var shared = []ace{
	{aceOwner, 7, aceNoID},
	{aceUser, 4, otherUser},
	{aceGroup, 5, aceNoID},
	{aceNamedGroup, 4, otherGroup},
	{aceMask, 5, aceNoID},
	{aceOther, 0, aceNoID},
}

// setList sets a file's list.
func (p *probe) setList(name, list string, aces ...ace) error {
	b := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range aces {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.perm)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	return unix.Setxattr(p.pathOf(name), list, b, 0)
}

// sayACLs notes a file's mode and its lists.
func (p *probe) sayACLs(name string) {
	p.sayMode(name)
	for _, list := range []string{aclAccess, aclDefault} {
		b := make([]byte, 64<<10)
		n, err := unix.Getxattr(p.pathOf(name), list, b)
		if err != nil {
			p.sayError(name+" "+list, err)
			continue
		}
		p.say("%s %s: %s", name, list, listText(b[:n]))
	}
}

func listText(b []byte) string {
	var words []string
	for b = b[min(4, len(b)):]; len(b) >= 8; b = b[8:] {
		word := fmt.Sprintf("%x:%o", binary.LittleEndian.Uint16(b), binary.LittleEndian.Uint16(b[2:]))
		if id := binary.LittleEndian.Uint32(b[4:]); id != aceNoID {
			word += fmt.Sprintf(":%d", id)
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func aclSet(p *probe) {
	p.makeFile("f", "")
	p.makeDir("d")
	for _, name := range []string{"f", "d"} {
		p.sayError("set", p.setList(name, aclAccess, shared...))
		p.sayACLs(name)
		p.sayError("chmod", unix.Chmod(p.pathOf(name), 0o640))
		p.sayACLs(name)
		p.sayError("remove", unix.Removexattr(p.pathOf(name), aclAccess))
		p.sayACLs(name)
		p.sayError("remove again", unix.Removexattr(p.pathOf(name), aclAccess))
	}
}

// aclPlain sets a list that a mode can express.
func aclPlain(p *probe) {
	p.makeFile("f", "")
	p.sayError("set", p.setList("f", aclAccess, ace{aceOwner, 6, aceNoID}, ace{aceGroup, 4, aceNoID}, ace{aceOther, 1, aceNoID}))
	p.sayACLs("f")
	p.sayError("with a mask", p.setList("f", aclAccess,
		ace{aceOwner, 6, aceNoID}, ace{aceGroup, 7, aceNoID}, ace{aceMask, 4, aceNoID}, ace{aceOther, 0, aceNoID}))
	p.sayACLs("f")
}

// aclInherited makes objects in a directory with a default list, which
// overrides the umask.
func aclInherited(p *probe) {
	defer unix.Umask(unix.Umask(0o077))
	p.makeDir("d")
	p.sayError("set", p.setList("d", aclDefault, shared...))
	p.sayACLs("d")
	p.createFile("d/file", 0o666)
	p.createFile("d/own", 0o600)
	p.mustSucceed(unix.Mkdir(p.pathOf("d/dir"), 0o777))
	p.mustSucceed(unix.Mknod(p.pathOf("d/fifo"), unix.S_IFIFO|0o666, 0))
	p.mustSucceed(unix.Symlink("file", p.pathOf("d/symlink")))
	for _, name := range []string{"d/file", "d/own", "d/dir", "d/fifo"} {
		p.sayACLs(name)
	}
	p.createFile("d/dir/below", 0o644)
	p.sayACLs("d/dir/below")
	p.sayError("remove", unix.Removexattr(p.pathOf("d"), aclDefault))
	p.createFile("d/later", 0o666)
	p.sayACLs("d")
	p.sayACLs("d/later")
}

func aclWrong(p *probe) {
	p.makeFile("f", "")
	p.sayError("default of a file", p.setList("f", aclDefault, shared...))
	p.sayError("no owner", p.setList("f", aclAccess, shared[1:]...))
	p.sayError("no mask", p.setList("f", aclAccess, shared[0], shared[1], shared[2], shared[5]))
	p.sayError("twice the same", p.setList("f", aclAccess, shared[0], shared[1], shared[1], shared[2], shared[4], shared[5]))
	p.sayError("version", unix.Setxattr(p.pathOf("f"), aclAccess, []byte{1, 0, 0, 0}, 0))
	p.sayACLs("f")
}

func aclLong(p *probe) {
	p.makeFile("f", "")
	aces := []ace{shared[0]}
	for id := range uint32(300) {
		aces = append(aces, ace{aceUser, uint16(id % 8), 5000 + id})
	}
	aces = append(aces, shared[2:]...)
	p.sayError("set", p.setList("f", aclAccess, aces...))
	p.sayACLs("f")
}

// aclRights checks the rights that a list grants.
func aclRights(p *probe) {
	p.makeFile("f", "content")
	p.mustSucceed(unix.Chmod(p.pathOf("f"), 0o600))
	read := func(what string) {
		for _, uid := range []int{user, otherUser} {
			for _, groups := range [][]uint32{nil, {otherGroup}} {
				p.runAs(uid, group, groups, func() {
					fd, err := unix.Open(p.pathOf("f"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
					p.sayError(fmt.Sprintf("%s, user %d of %v", what, uid, groups), err)
					if err == nil {
						_ = unix.Close(fd)
					}
				})
			}
		}
	}
	read("without")
	p.sayError("set", p.setList("f", aclAccess, shared...))
	read("with")
	p.sayError("chmod", unix.Chmod(p.pathOf("f"), 0o600))
	read("masked")
	p.sayError("remove", unix.Removexattr(p.pathOf("f"), aclAccess))
	read("removed")
}

// aclByUser sets lists on another user's files.
func aclByUser(p *probe) {
	p.makeFile("f", "")
	p.mustSucceed(unix.Chown(p.pathOf("f"), user, group))
	p.runAs(otherUser, otherGroup, nil, func() { p.sayError("another", p.setList("f", aclAccess, shared...)) })
	p.runAs(user, group, nil, func() { p.sayError("the owner", p.setList("f", aclAccess, shared...)) })
	p.sayACLs("f")
	p.runAs(otherUser, otherGroup, nil, func() {
		p.sayError("another removes", unix.Removexattr(p.pathOf("f"), aclAccess))
		p.sayACLs("f")
	})
}
