/* Talks to itself by TCP, and says whether it may trust its environment. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROUNDS 200

int main(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0), near = socket(AF_INET, SOCK_STREAM, 0), far;
	char byte = 7;

	if (bind(listener, (void *)&address, length) || listen(listener, 1) ||
	    getsockname(listener, (void *)&address, &length) || connect(near, (void *)&address, length))
		return 1;
	far = accept(listener, NULL, NULL);
	for (int round = 0; round < ROUNDS; round++)
		if (write(near, &byte, 1) != 1 || read(far, &byte, 1) != 1 || write(far, &byte, 1) != 1 || read(near, &byte, 1) != 1)
			return 1;
	printf("AT_SECURE %lu euid %u\n", getauxval(AT_SECURE), geteuid());
	return 0;
}
