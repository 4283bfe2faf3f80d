/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef CASES_H
#define CASES_H

/* GROUP ERROR: nobody, in that group, opens the device; 0 or the errno is what it gets. */
void member(char **arguments);
/* Calls and mappings that must fail, and how. */
void misuse(char **arguments);
/* Two processes of one VM: neither sees the other without its key. */
void isolation(char **arguments);
/* Memory with a new owner is not what an old peer still maps. */
void reuse(char **arguments);
/* SEED COUNT: random calls. */
void fuzz(char **arguments);
/* CLIENTS: answers doorbells until so many clients have said goodbye. */
void serve(char **arguments);
/* SLOT COUNT: rings a server there, and is rung, so many times. */
void talk(char **arguments);
/* LENGTH: has an aperture of the service and waits to be killed. */
void hold(char **arguments);
/* Has everything open when the device goes away. */
void unbound(char **arguments);
/* SLOT: is connected to a VM that dies. */
void orphan(char **arguments);
/* SEED SECONDS: writes rubbish over the whole region. */
void scribble(char **arguments);
/* SLOT: is a VM there whose table lies, until it is killed. */
void forge(char **arguments);
/* SLOT SIZE: connects to what that table has, in a region of that size. */
void deceived(char **arguments);
/* COUNT: has apertures, one after the other, in the same memory. */
void renew(char **arguments);
/* Has one as soon as a driver that has just started gives it: not at once, others still map that memory. */
void anew(char **arguments);
/* SLOT COUNT ERROR: writes into each of them, as long as it can; ERROR is how each connection ends. */
void stale(char **arguments);

#endif
