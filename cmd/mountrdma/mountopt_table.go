package main

import "strings"

const (
	helpIndent = 4
	helpWidth  = 100 // columns
)

// help describes all options.
func (o *mountOptions) help() string {
	var b strings.Builder
	var names []string
	for _, row := range o.table() {
		name := row.name
		if row.value != "" && row.value != maybe {
			name += "=" + row.value
		}
		names = append(names, name)
		if row.help != "" {
			wrap(&b, helpIndent, "  "+strings.Join(names, ", "))
			wrap(&b, 2*helpIndent, strings.Repeat(" ", 2*helpIndent)+row.help)
			names = nil
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// wrap writes text as lines. All lines except the first are indented.
func wrap(b *strings.Builder, indent int, text string) {
	for len(text) > helpWidth {
		i := strings.LastIndexByte(text[:helpWidth], ' ')
		b.WriteString(text[:i] + "\n")
		text = strings.Repeat(" ", indent) + text[i+1:]
	}
	b.WriteString(text + "\n")
}

// An option is a row of the table of options.
type option struct {
	name  string
	value string // placeholder after "=" in the help; "": no value allowed
	set   setter // nil: the option has no effect here
	help  string // "": the next row's help covers both
}

// maybe marks an option that may or may not have a value.
const maybe = "[...]"

// table returns all options. Their setters set o.
func (o *mountOptions) table() []option {
	return append([]option{
		{"ro", "", is(&o.readOnly, true), ""},
		{"rw", "", is(&o.readOnly, false), "read only; or read and write, the default"},
		{"hard", "", is(&o.soft, false), ""},
		{"soft", "", is(&o.soft, true), ""},
		{"softerr", "", is(&o.soft, true), "calls wait for a lost server for ever, the default; or fail after a time"},
		{"timeo", "N", number(1, maxTimeo, &o.timeo), "tenths of a second without a sign of life after which a connection is replaced (600)"},
		{"retrans", "N", number(0, maxRetrans, &o.retrans), "soft: calls fail when the server is gone for N+1 times timeo, 10 minutes at most (2)"},
		{"rsize", "N", transfer(&o.rsize), ""},
		{"wsize", "N", transfer(&o.wsize), "most octets of a READ and of a WRITE: multiples of 4096, 1 MiB at most, what the server takes"},
		{"nconnect", "N", number(1, maxConnect, &o.connections), "connections to the server, over which calls go in turn (1)"},
		{"port", "N", number(1, maxPort, &o.port), "the server's RDMA port (20049)"},
		{"mountport", "N", number(1, maxPort, &o.mountPort), ""},
		{"mounthost", "HOST", text(&o.mountHost), ""},
		{"mountaddr", "ADDR", text(&o.mountHost), "where MOUNT answers over TCP, if it is not to be searched for"},
		{"acregmin", "N", number(0, maxSeconds, &o.acRegMin), ""},
		{"acregmax", "N", number(0, maxSeconds, &o.acRegMax), ""},
		{"acdirmin", "N", number(0, maxSeconds, &o.acDirMin), ""},
		{"acdirmax", "N", number(0, maxSeconds, &o.acDirMax), ""},
		{
			"actimeo", "N", number(0, maxSeconds, &o.acRegMin, &o.acRegMax, &o.acDirMin, &o.acDirMax),
			"seconds for which attributes of files and directories are believed (3, 60, 30, 60); or all four",
		},
		{"ac", "", is(&o.noAC, false), ""},
		{"noac", "", is(&o.noAC, true), "attributes are believed for a time, the default; or never, and nothing is written behind"},
		{"async", "", is(&o.sync, false), ""},
		{"sync", "", is(&o.sync, true), "what noac does"},
		{"deleg", "", is(&o.noDeleg, false), ""},
		{"nodeleg", "", is(&o.noDeleg, true), "what the server (nfsrdmad) lets this mount hold is served without a call until it is recalled, the default but with noac and sync; or nothing is held"},
		{"lookupcache", "all|positive|none", oneOf(&o.lookup, lookupCaches), "which names are remembered: those that are not there too (all), those that are, none"},
		{"nosuid", "", is(&o.noSUID, true), ""},
		{"suid", "", is(&o.noSUID, false), ""},
		{"allow_suid", "", is(&o.noSUID, false), ""},
		{"nodev", "", is(&o.noDev, true), ""},
		{"dev", "", is(&o.noDev, false), ""},
		{"allow_dev", "", is(&o.noDev, false), "set-user-ID programs and devices of the server are not heeded, the default; or are, on root's mounts (mount(8) keeps suid and dev for itself: say allow_suid and allow_dev to it)"},
		{"exec", "", is(&o.noExec, false), ""},
		{"noexec", "", is(&o.noExec, true), "programs can be run, the default; or not"},
		{"user", maybe, o.users(true), ""},
		{"users", "", o.users(true), ""},
		{"owner", "", o.users(false), ""},
		{"group", "", o.users(false), "nosuid and nodev; user and users are noexec too"},
		{"allow_other", "", is(&o.allowOther, true), "all users of this host may use the mount: always so for root's"},
		{"nolock", "", is(&o.note, ""), ""},
		{"lock", "", is(&o.note, localLocks), ""},
		{"local_lock", "all|flock|posix|none", oneOf(&o.note, localLock), "locks are known to this host alone, whatever is said"},
		{"fg", "", is(&o.background, false), ""},
		{"bg", "", is(&o.background, true), "try to mount, the default; or go on trying in the background once it has failed"},
		{"retry", "N", number(0, maxRetry, &o.retry), "minutes to go on trying while the server cannot be reached (fg 2, bg 10000); 0: once"},
		{"nonotice", "", is(&o.notice, false), ""},
		{"notice", maybe, o.setNotice, "reconnect at once when the server (nfsrdmad --discover) says over RoCE that it has been restarted, heard at UDP port 4791 of notice=ADDR of this host; or not, the default"},
		{"crc", o.crc.Type(), o.crc.Set, ""},
		{"markers", o.markers.Type(), o.markers.Set, ""},
		{"noextensions", "", is(&o.bare, true), "as the flags --crc, --markers and --no-extensions"},
		{"inline", "SIZE", o.setInline, "longest message sent without RDMA (4KiB)"},
		{"credits", "N", number(1, maxCredits, &o.credits), "calls that may be under way (128)"},
		{"rdma", "", nil, ""},
		{"proto", "rdma|rdma6", only(otherTransport, "rdma", "rdma6"), ""},
		{"mountproto", "tcp|tcp6", only("MOUNT is asked on the RDMA connection and over TCP, nothing else", "tcp", "tcp6"), ""},
		{"vers", "3", only(otherVersion, "3"), ""},
		{"nfsvers", "3", only(otherVersion, "3"), ""},
		{"v3", "", nil, ""},
		{"mountvers", "3", only("MOUNT has version 3 here", "3"), ""},
		{"sec", "sys", only("there is sec=sys only, no Kerberos", "sys"), "nothing else is there"},
		{"tcp", "", refuse(otherTransport), ""},
		{"udp", "", refuse(otherTransport), ""},
		{"v2", "", refuse(otherVersion), ""},
		{"v4", maybe, refuse(otherVersion), ""},
		{"v4.0", "", refuse(otherVersion), ""},
		{"v4.1", "", refuse(otherVersion), ""},
		{"v4.2", "", refuse(otherVersion), ""},
		{"minorversion", maybe, refuse(otherVersion), ""},
		{"krb5", maybe, refuse("there is sec=sys only, no Kerberos"), ""},
		{"remount", "", refuse("a mount cannot be changed: unmount it, and mount it anew"), "refused, with what to do instead"},
	}, without(
		"defaults", "auto", "noauto", "nouser", "nofail", "_netdev", "comment",
		"atime", "noatime", "diratime", "nodiratime", "relatime", "norelatime", "strictatime", "nostrictatime", "lazytime", "nolazytime",
		"intr", "nointr", "addr", "clientaddr", "cto", "nocto", "acl", "noacl", "rdirplus", "nordirplus",
		"sharecache", "nosharecache", "resvport", "noresvport", "nofsc", "namlen", "nomand", "silent", "loud",
		"dirsync", "iversion", "noiversion",
	)...)
}
