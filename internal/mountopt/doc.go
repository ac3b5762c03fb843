// Package mountopt parses a mount's -o value: the options of nfs(5), those of
// mount(8) and fstab(5) that a mount must accept, and some of this project's own.
// It must not depend on how a mount is made, nor on a server.
package mountopt
