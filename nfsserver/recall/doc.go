// Package recall delays changes to objects that clients may hold: a
// change waits until each holder has returned the object.
//
//	change ──Begin──▶ Table ──recall──▶ Holder
//	  ▲ └─────Wait─────┘  ◀──Return───────┘
//
// Hold adds a holder without a lock on the object: it adds the holder, and then looks for
// changes that began earlier and still run. If there may be one, the holder is
// withdrawn at once: a delegation is always optional. A change does the opposite: it is
// counted, and then looks for holders. So whichever comes later sees the other. Changes and
// holders are counted per object group, in one atomic word each.
//
// A holder may change its object in its cache (Holder.Writer). Then the object has no
// other holder, and readers recall it too (Table.BeginRead).
//
// While nothing is held, a change costs one addition, and one more when it ends
// (Table.NothingHeld), and a reader one load (Table.HasWriters). The package
// must not depend on what a holder is, how it is notified, or what an object is.
package recall
