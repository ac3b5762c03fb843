package mountopt

import "strings"

const (
	helpIndent = 4
	helpWidth  = 100 // columns
)

// Help describes all options.
func (o *Options) Help() string {
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

// Words returns the options that have an effect or are accepted: with each of
// its values if they are fixed, else with "=" at the end if it needs a value.
// It tries setters: o is of no use afterwards.
func (o *Options) Words() (words []string) {
	for _, row := range o.table() {
		switch {
		case row.value == "" || row.value == maybe:
			if row.set == nil || row.set("") == nil {
				words = append(words, row.name)
			}
		case strings.Contains(row.value, "|"):
			for value := range strings.SplitSeq(row.value, "|") {
				words = append(words, row.name+"="+value)
			}
		default:
			words = append(words, row.name+"=")
		}
	}
	return words
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
func (o *Options) table() []option {
	return append([]option{
		{"ro", "", is(&o.ReadOnly, true), ""},
		{"rw", "", is(&o.ReadOnly, false), "read only; or read and write, the default"},
		{"hard", "", is(&o.Soft, false), ""},
		{"soft", "", is(&o.Soft, true), ""},
		{"softerr", "", is(&o.Soft, true), "calls wait for a lost server for ever, the default; or fail after a time"},
		{"timeo", "N", number(1, maxTimeo, &o.Timeo), "tenths of a second of silence after which a connection is replaced (600)"},
		{"retrans", "N", number(0, maxRetrans, &o.Retrans), "soft: calls fail when the server is gone for N+1 times timeo, 10 minutes at most (2)"},
		{"rsize", "N", transfer(&o.ReadSize), ""},
		{"wsize", "N", transfer(&o.WriteSize), "most bytes of a READ and of a WRITE: multiples of 4096, 1 MiB at most, by default the server's limit"},
		{"nconnect", "N", number(1, maxConnect, &o.Connections), "connections to the server, used in turn (1)"},
		{"port", "N", number(1, maxPort, &o.Port), "the server's port (20049, and 2049 with proto=tcp)"},
		{"mountport", "N", number(1, maxPort, &o.MountPort), ""},
		{"mounthost", "HOST", text(&o.MountHost), ""},
		{"mountaddr", "ADDR", text(&o.MountHost), "port and host of MOUNT over TCP, instead of a search"},
		{"acregmin", "N", number(0, maxSeconds, &o.ACRegMin), ""},
		{"acregmax", "N", number(0, maxSeconds, &o.ACRegMax), ""},
		{"acdirmin", "N", number(0, maxSeconds, &o.ACDirMin), ""},
		{"acdirmax", "N", number(0, maxSeconds, &o.ACDirMax), ""},
		{
			"actimeo", "N", number(0, maxSeconds, &o.ACRegMin, &o.ACRegMax, &o.ACDirMin, &o.ACDirMax),
			"seconds for which attributes of files and directories are cached (3, 60, 30, 60); or all four",
		},
		{"ac", "", is(&o.NoAC, false), ""},
		{"noac", "", is(&o.NoAC, true), "attributes are cached for a time, the default; or never, and writes go to the server at once"},
		{"async", "", is(&o.Sync, false), ""},
		{"sync", "", is(&o.Sync, true), "as noac"},
		{"deleg", "", is(&o.NoDeleg, false), ""},
		{"nodeleg", "", is(&o.NoDeleg, true), "cached objects need no call until the server (nfsrdmad) recalls them, the default except with noac and sync; or delegations are not used"},
		{"lookupcache", "all|positive|none", oneOf(&o.Lookup, lookupCaches), "cached names: existing and missing ones (all), existing ones, none"},
		{"nosuid", "", is(&o.NoSUID, true), ""},
		{"suid", "", is(&o.NoSUID, false), ""},
		{"allow_suid", "", is(&o.NoSUID, false), ""},
		{"nodev", "", is(&o.NoDev, true), ""},
		{"dev", "", is(&o.NoDev, false), ""},
		{"allow_dev", "", is(&o.NoDev, false), "set-user-ID programs and devices of the server have no effect, the default; or work, on root's mounts (mount(8) keeps suid and dev for itself: give it allow_suid and allow_dev)"},
		{"exec", "", is(&o.NoExec, false), ""},
		{"noexec", "", is(&o.NoExec, true), "programs can be run, the default; or not"},
		{"user", maybe, o.users(true), ""},
		{"users", "", o.users(true), ""},
		{"owner", "", o.users(false), ""},
		{"group", "", o.users(false), "nosuid and nodev; user and users are noexec too"},
		{"allow_other", "", is(&o.AllowOther, true), "all users of this host may use the mount: always so for root's"},
		{"lock", "", is(&o.NoLock, false), ""},
		{"nolock", "", is(&o.NoLock, true), "locks hold at the server if it has a lock manager, the default; or on this host only"},
		{"local_lock", "all|flock|posix|none", o.setLocalLock, "which locks hold on this host only: of flock(2), of fcntl(2), both, none (none)"},
		{"fg", "", is(&o.Background, false), ""},
		{"bg", "", is(&o.Background, true), "fail if the first try fails, the default; or then retry in the background"},
		{"retry", "N", number(0, maxRetry, &o.retry), "minutes to retry while the server cannot be reached (fg 2, bg 10000); 0: once"},
		{"nonotice", "", is(&o.Notice, false), ""},
		{"notice", maybe, o.setNotice, "reconnect at once after a restart that the server (nfsrdmad --discover) announces over RoCE, to UDP port 4791 of notice=ADDR of this host; or not, the default"},
		{"crc", o.CRC.Type(), o.CRC.Set, ""},
		{"markers", o.Markers.Type(), o.Markers.Set, ""},
		{"noextensions", "", is(o.NoExtensions, true), "as the flags --crc, --markers and --no-extensions"},
		{"inline", "SIZE", o.setInline, "longest message sent without RDMA (4KiB)"},
		{"credits", "N", number(1, MaxCredits, o.Credits), "calls that may be under way (128)"},
		{"rdma", "", o.proto("rdma"), ""},
		{"tcp", "", o.proto("tcp"), ""},
		{"proto", "rdma|rdma6|tcp|tcp6", o.setProto, "calls go over RDMA, the default; or over TCP, without delegations"},
		{"mountproto", "tcp|tcp6", only("MOUNT is used on the connection of NFS and over TCP only", "tcp", "tcp6"), ""},
		{"vers", "3", only(otherVersion, "3"), ""},
		{"nfsvers", "3", only(otherVersion, "3"), ""},
		{"v3", "", nil, ""},
		{"mountvers", "3", only("MOUNT has version 3 here", "3"), ""},
		{"sec", o.Sec.Type(), o.Sec.Set, "security flavours, of which the first that the export has is taken: sys (the user's number), krb5 (Kerberos), krb5i (and nobody changes data on the way), krb5p (and nobody reads them); by default the first of the export's list that this host can use: one of Kerberos needs a ticket of the user who mounts, if the list has sys too"},
		{"keytab", "FILE", path(o.Keytab), "keys of this machine, with which root's calls get tickets (/etc/krb5.keytab)"},
		{"xprtsec", o.Xprtsec.Type(), o.Xprtsec.Set, "protection of connections: none (the default), tls (encrypted; the server shows a certificate), mtls (this host shows one too); on RDMA nfsrdmad's --rdma-tls alone has them"},
		{"tls-cert", "FILE", path(o.TLSCert), "certificate of this host, for mtls"},
		{"tls-key", "FILE", path(o.TLSKey), "its key"},
		{"tls-ca", "FILE", path(o.TLSCA), "authorities of the server's certificate (those of this host)"},
		{"tls-crl", "FILE", path(o.TLSCRL), "their revocation lists"},
		{"alpn", o.ALPN.Type(), o.ALPN.Set, "any (the default), or strict, which refuses servers that do not say what TLS is for, as Linux's; on RDMA it is so always"},
		{"clear-mount", "", is(o.ClearMOUNT, true), "with xprtsec=, and sec=: MOUNT may be asked in clear if the server has no TLS for it, as Linux's mountd; others on the way see, and may change, which of the server's directories is mounted"},
		{"tls-kernel", o.TLSKernel.Type(), o.TLSKernel.Set, "auto has the kernel encrypt, if it has the module tls (off)"},
		{"udp", "", refuse(otherTransport), ""},
		{"v2", "", refuse(otherVersion), ""},
		{"v4", maybe, refuse(otherVersion), ""},
		{"v4.0", "", refuse(otherVersion), ""},
		{"v4.1", "", refuse(otherVersion), ""},
		{"v4.2", "", refuse(otherVersion), ""},
		{"minorversion", maybe, refuse(otherVersion), ""},
		{"krb5", maybe, refuse("write sec=krb5, sec=krb5i or sec=krb5p"), ""},
		{"remount", "", refuse("a mount cannot be changed: unmount it, and mount it again"), "refused, with the remedy"},
	}, without(
		"defaults", "auto", "noauto", "nouser", "nofail", "_netdev", "comment",
		"atime", "noatime", "diratime", "nodiratime", "relatime", "norelatime", "strictatime", "nostrictatime", "lazytime", "nolazytime",
		"intr", "nointr", "addr", "clientaddr", "cto", "nocto", "acl", "noacl", "rdirplus", "nordirplus",
		"sharecache", "nosharecache", "resvport", "noresvport", "nofsc", "namlen", "nomand", "silent", "loud",
		"dirsync", "iversion", "noiversion",
	)...)
}
